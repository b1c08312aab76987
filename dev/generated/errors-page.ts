/** docs/errors.md: the catalogue of failures, with the routes that declare them. */
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { catalogue, type Entry, type FailureName } from '../../src/failures/failures.ts'
import { createLogger } from '../../src/logger.ts'
import { code, notice, table } from './markdown.ts'

const entries = Object.entries(catalogue) as [FailureName, Entry][]

/** Gives the routes of the service; it connects to no database. */
async function listRoutes() {
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1/none', AUTH_TOKENS: 'nobody:0123456789abcdef' }
  const app = await buildApp(readConfig({ ...env, METRICS_PORT: 'off' }), createLogger('silent'))
  await app.close()
  return app.routes
}

/** Gives a header field's name as RFCs write it. */
function fieldName(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase()).replace(/^Www/, 'WWW')
}

function describeFields({ headers = {}, fields = [] }: Entry): string {
  const constant = Object.entries(headers).map(([name, value]) => code(`${fieldName(name)}: ${value}`))
  return [...constant, ...fields.map((name) => code(fieldName(name)))].join(', ')
}

export async function writeErrorsPage(): Promise<string> {
  const routes = await listRoutes()
  const metBy = (name: FailureName, { scope }: Entry) =>
    scope ??
    routes
      .filter(({ failures }) => failures.includes(name))
      .map(({ method, url }) => code(`${method} ${url}`))
      .join(', ')
  const sections = entries.map(([name, entry]) => {
    const fields = describeFields(entry)
    return `## ${name}

- Number: ${entry.error}
- Message: ${code(entry.message)}
- What to do: ${entry.advice}
- Met by: ${metBy(name, entry)}${fields && `\n- Header fields: ${fields}`}
`
  })
  const numbers = [...Map.groupBy(entries, ([, { error }]) => error)]
  return `# Errors

${notice}

Every failure is status 400 with the body \`{"error": <number>, "message": <text>}\`. \`error\` is the HTTP status code that
would name the failure best. \`message\` may name the fault more exactly than the text below. The names are those of the
metric \`plant_store_http_failures_total\`.

${table(
  ['error', 'failures'],
  numbers.map(([error, failures]) => [
    `${error}`,
    failures.map(([name]) => `[${name}](#${name.toLowerCase()})`).join(', ')
  ])
)}

${sections.join('\n')}`
}
