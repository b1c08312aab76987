/** docs/errors.md: the catalogue of failures. */
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { formatMessage } from '../../src/failures/failure.ts'
import { code, notice, table } from './markdown.ts'

const entries = Object.entries(catalogue) as [FailureName, Entry][]

/** Returns a header field's name as RFCs write it. */
function fieldName(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase()).replace(/^Www/, 'WWW')
}

/** Returns the header fields of failures that have no column, each with its numbers. */
function describeFields(): string {
  const found = entries.flatMap(([, { error, headers = {}, varyingFields = [] }]) => [
    ...Object.entries(headers).map(([name, value]) => ({ error, field: `${fieldName(name)}: ${value}` })),
    ...varyingFields.map((name) => ({ error, field: fieldName(name) }))
  ])
  return [...Map.groupBy(found, ({ field }) => field)]
    .map(
      ([field, carriers]) => `${[...new Set(carriers.map(({ error }) => error))].join(', ')} ${code(field)}`
    )
    .join('; ')
}

/** Returns when the same request is sent again, in Markdown. */
export const describeRetry = ({ retry }: Entry) => retry.replace('Retry-After', '`Retry-After`')

export function writeErrorsPage(): string {
  const rows = entries.map(([name, entry]) => [
    `${entry.error}`,
    `<a id="${name.toLowerCase()}"></a>${name}${entry.scope === 'requests for /readyz' ? ' (`/readyz`)' : ''}`,
    code(formatMessage(entry, true)),
    [entry.outcome ?? '', ...(entry.mayBeNone ? ['none'] : [])].map(code).join(' or '),
    describeRetry(entry),
    entry.advice
  ])
  return `# Errors

${notice}

Every failure is status 400 with \`{"error": <number>, "message": <text>}\`. \`error\` is the HTTP status code that fits
best. \`message\` may be more exact. \`Error-Name\` is the name below. \`plant_store_http_failures_total\`
counts by name, \`plant_store_http_requests_total\` by caller, too. [The log](monitoring.md#logs) says why.
The files that \`/docs\` loads can meet RateLimited.

\`Write-Outcome\` is \`none\` if this request has stored nothing, \`unknown\` if it may have stored the plant. It says nothing
about [earlier attempts](clients.md#rules-for-a-client). \`retry\` says when the same request, with its \`Idempotency-Key\`, is worth
another attempt. Further header fields (\`Retry-After\` in seconds):
${describeFields()}.

${table(['error', 'name', 'message', '`Write-Outcome`', 'retry', 'what to do'], rows)}
`
}
