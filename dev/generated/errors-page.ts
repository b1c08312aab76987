/** docs/errors.md: the catalogue of failures, with the operations that meet them. */
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { writeMessage } from '../../src/failures/failure.ts'
import { failuresOf } from '../../src/http/operation.ts'
import { operations } from '../../src/plants/route.ts'
import { code, notice, table } from './markdown.ts'

const entries = Object.entries(catalogue) as [FailureName, Entry][]

/** Returns the operations that can meet a failure. */
const meeting = (name: FailureName) =>
  operations.filter((operation) => failuresOf(operation).some(([one]) => one === name))

/** Returns a header field's name as RFCs write it. */
function fieldName(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase()).replace(/^Www/, 'WWW')
}

/** Returns the header fields of failures that have no column, each with its numbers. */
function describeFields(): string {
  const found = entries.flatMap(([, { error, headers = {}, fields = [] }]) => [
    ...Object.entries(headers).map(([name, value]) => ({ error, field: `${fieldName(name)}: ${value}` })),
    ...fields.map((name) => ({ error, field: fieldName(name) }))
  ])
  return [...Map.groupBy(found, ({ field }) => field)]
    .map(
      ([field, carriers]) => `${[...new Set(carriers.map(({ error }) => error))].join(', ')} ${code(field)}`
    )
    .join('; ')
}

/** Returns what follows a failure's name: nothing where any request, another path or another method meets it. */
function describeScope(name: FailureName, { scope }: Entry): string {
  if (scope === 'requests for /readyz') return ' (`/readyz`)'
  if (scope?.includes('request')) return ''
  const found = meeting(name).map(({ method, path }) => code(`${method} ${path}`))
  if (found.join() === '`POST /plants`') return '¹'
  return found.length === operations.length ? '' : ` (${found.join(', ')})`
}

export function writeErrorsPage(): string {
  const rows = entries.map(([name, entry]) => [
    `${entry.error}`,
    `<a id="${name.toLowerCase()}"></a>${name}${describeScope(name, entry)}`,
    code(writeMessage(entry, true)),
    code(entry.outcome ?? ''),
    entry.advice
  ])
  return `# Errors

${notice}

Every failure is status 400 with \`{"error": <number>, "message": <text>}\`. \`error\` is the HTTP status code that fits
best. \`message\` may be more exact. \`Error-Name\` is the name below. \`plant_store_http_failures_total\` counts by name.

\`Write-Outcome\` is \`none\` if this request has stored nothing, \`unknown\` if it may have stored the plant. It says nothing
of [earlier attempts](clients.md#rules-for-a-client). Further header fields (\`Retry-After\` in seconds):
${describeFields()}.

${table(['error', 'name', 'message', '`Write-Outcome`', 'what to do'], rows)}

¹ only \`POST /plants\`
`
}
