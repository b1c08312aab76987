/** The fields of the log's lines, as docs/monitoring.md describes them. */

interface Field {
  readonly type: 'integer' | 'number' | 'text' | 'texts' | 'error'
  /** The lines that have it. */
  readonly of: string
  readonly meaning: string
}

const field = (type: Field['type'], of: string, meaning: string): Field => ({ type, of, meaning })

const every = 'every line'
const request = 'a request'
const known = 'a request, if known'
const limits = 'the end of a process that is cut off'

export const logFields = {
  time: field('integer', every, 'Unix time in ms'),
  level: field('integer', every, '20 debug, 30 info, 40 warn (503), 50 error (500), 60 fatal'),
  msg: field('text', every, 'What happened; of a failure, the message that its client got'),
  requestId: field('text', request, 'The `X-Request-Id` of its response'),
  failure: field('integer', 'a request with a response', 'Its number `error`; 0 for a success'),
  errorName: field('text', 'a failure', 'Its [name](errors.md)'),
  durationMs: field('number', known, "ms from the request's header to the end of its response"),
  caller: field('text', 'a request with a valid token', 'The name of the token'),
  method: field('text', known, 'The HTTP method'),
  route: field('text', known, 'The path of the operation or the probe'),
  client: field('text', known, "The connection's address: behind a balancer, the balancer's"),
  forwardedFor: field('text', known, '`X-Forwarded-For`'),
  traceId: field('text', known, 'The trace id of its W3C `traceparent`'),
  batchRows: field('integer', 'a create that was in a transaction', 'The plants in its last transaction'),
  cause: field('error', '503, a plant that PostgreSQL refused, an outage', 'Why'),
  err: field('error', '500, a lost connection, an uncaught error', 'What was thrown'),
  requests: field(
    'integer',
    'requests without lines; the end',
    'How many had no line; how many had no response'
  ),
  lines: field('integer', '`lines of the log were lost`', 'How many'),
  tokens: field('integer', '`AUTH_TOKENS_FILE was read`', 'How many tokens it holds'),
  faults: field('texts', 'a broken secret file', 'What is wrong, without secrets'),
  missing: field(
    'text',
    'a wait for the database, a new URL',
    'What it lacks, with the SQL that grants a right'
  ),
  host: field('text', 'a connection in clear text', "The database's host"),
  limit: field('integer', '`too few open files…`', 'How many files may be open'),
  needed: field('integer', '`too few open files…`', 'How many are needed'),
  detail: field('text', '`spans cannot be sent`', "OpenTelemetry's message"),
  signal: field('text', 'the end', 'Which signal ended it'),
  delayMs: field('integer', 'the end', '`SHUTDOWN_DELAY_MS`'),
  limitMs: field('integer', limits, '`SHUTDOWN_TIMEOUT_MS`'),
  connections: field('integer', limits, 'Connections that are still open')
} as const satisfies Record<string, Field>

/** A line's own fields. */
export type Line = Readonly<Partial<Record<keyof typeof logFields, unknown>>>

const reported = "PostgreSQL's report"

/** What `err` and `cause` have. Messages, details and hints of PostgreSQL can quote values. */
export const errorFields = {
  type: field('text', 'every error', 'Its class'),
  name: field('text', 'every error', 'Its name'),
  message: field('text', 'an error of the service or of Node', 'What happened'),
  code: field(
    'text',
    'an error with a code',
    'The [SQLSTATE](#sqlstate), or a code of Node such as `ECONNREFUSED`'
  ),
  severity: field('text', reported, '`ERROR`; `FATAL` ends the session'),
  schema: field('text', reported, 'The schema of the table'),
  table: field('text', reported, 'The table'),
  column: field('text', reported, 'The column'),
  dataType: field('text', reported, 'The type that refused a value'),
  constraint: field('text', reported, 'The constraint that refused a plant'),
  routine: field('text', reported, "PostgreSQL's own function"),
  function: field('text', reported, 'The PL/pgSQL function, as of a trigger'),
  stack: field('text', '`err`', 'Where it was thrown'),
  cause: field('error', 'an error with a cause', 'Why: again these fields')
} as const satisfies Record<string, Field>

export type ErrorField = keyof typeof errorFields
