/** The service as production builds it, on a port and a database of its own. */
import type { Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { formatMessage } from '../../src/failures/failure.ts'
import { createLogger } from '../../src/logger.ts'
import type { Plant } from '../../src/plants/schema.ts'
import { createDatabase, query } from '../postgres/database.ts'
import { scaled } from '../time/slowness.ts'
import { checkDeclarations } from './declarations.ts'
import { checkLine } from './log-fields.ts'

/** A secret of the caller `tester`. */
export const token = 'tester-secret-0123456789'

/** The header fields of a good request. */
export const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }

/** Limits that no machine is too slow for; the shutdown has time for any deadline of a test. */
export const patientSettings = {
  HEADERS_TIMEOUT_MS: String(scaled(60_000)),
  REQUEST_TIMEOUT_MS: String(scaled(60_000)),
  WRITE_DEADLINE_MS: String(scaled(60_000)),
  SHUTDOWN_TIMEOUT_MS: String(scaled(600_000))
}

/** Starts the service; `env` adds to or replaces its settings. Ends it at teardown. */
export async function startService(t: Test, env: Record<string, string> = {}) {
  const databaseUrl = env.DATABASE_URL ?? (await createDatabase(t))
  const config = readConfig({
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `tester:${token}`,
    METRICS_PORT: '0',
    ...patientSettings,
    ...env
  })
  const log: string[] = []
  const parsed: ReturnType<typeof JSON.parse>[] = []
  const write = (line: string) => {
    log.push(line)
    checkLine(line)
  }
  const app = await buildApp(config, createLogger(config.LOG_LEVEL, { write }))
  checkDeclarations(t, app)
  t.teardown(() => app.close())
  await app.listenForMetrics()
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const metricsUrl = () => /"Metrics at ([^"]+)"/.exec(log.join(''))?.[1] ?? ''
  return {
    app,
    url,
    databaseUrl,
    /** The log so far, parsed: each line once, since tests that wait for a line look repeatedly. */
    log() {
      for (const line of log.slice(parsed.length)) parsed.push(JSON.parse(line))
      return [...parsed]
    },
    metricsUrl,
    /** The metrics page, as text. */
    metrics: async () => (await fetch(metricsUrl())).text(),
    /** Everything logged so far, as it was written. */
    logText: () => log.join(''),
    /** Rows of the table, by any query. */
    rows: (sql: string, values?: unknown[]) => query(databaseUrl, sql, values),
    /** Posts a body (text as it stands, anything else as JSON) to /plants. */
    post: (body: unknown, init: RequestInit = {}) => post(`${url}${config.BASE_PATH}/plants`, body, init)
  }
}

/** A service that runs in this process. */
export type Service = Awaited<ReturnType<typeof startService>>

/**
 * Creates a plant without HTTP, as many new connections at once fail on a slow machine. Returns `created`, `replayed`, or the
 * failure's name.
 */
export const createIn = (
  { app }: Service,
  plant: { id: bigint; name: string },
  caller = 'tester',
  idempotencyKey?: string
): Promise<string> =>
  app.plants.create(plant, { caller, idempotencyKey }).then(
    ({ stored, release }) => {
      release()
      return stored
    },
    ({ name }: Error) => name
  )

/** Posts a body and returns the whole response, without the header fields that say nothing about the failure. */
export async function post(url: string, body: unknown, init: RequestInit = {}) {
  const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  return read(await fetch(url, { method: 'POST', headers, body: text as string, ...init }))
}

/** Returns a response's status, body, and its header fields without those of the transport. */
export async function read(response: Response) {
  const fields = Object.fromEntries(response.headers)
  const transport = ['date', 'connection', 'keep-alive', 'content-length', 'transfer-encoding']
  for (const name of transport) delete fields[name]
  return { status: response.status, headers: maskId(fields), body: await response.text() }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Replaces a request id that the service made by one text; one that the client sent stays. */
export function maskId(fields: Record<string, string>): Record<string, string> {
  return { ...fields, 'x-request-id': fields['x-request-id']?.replace(uuid, 'made') ?? 'missing' }
}

/** The header fields of every response, masked. */
export const everyResponse = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'content-type': 'application/json',
  'x-content-type-options': 'nosniff',
  'x-request-id': 'made'
}

/** Names of failures whose message is more exact than the catalogue's, by the number and what the message has in it. */
const exact: [error: number, part: RegExp, name: FailureName][] = [
  [400, /body/, 'MalformedBody'],
  [400, /./, 'MalformedRequest'],
  [415, /./, 'UnsupportedMediaType'],
  [422, /./, 'InvalidPlant'],
  [429, /./, 'RateLimited'],
  [503, /stored nothing/, 'Overloaded'],
  [503, /./, 'NotReady']
]

/** Returns the name of the failure with this number and message, of an operation that writes or of one that reads. */
function findName(error: number, message: string, writes: boolean): FailureName | undefined {
  const entries = Object.entries(catalogue) as [FailureName, Entry][]
  const known = entries.find(([, entry]) => entry.error === error && formatMessage(entry, writes) === message)
  return known?.[0] ?? exact.find(([number, part]) => number === error && part.test(message))?.[2]
}

/** The whole response that a failure of a create, or of any request, must get; `writes`: false for that of a read. */
export function failure(
  error: number,
  message: string,
  extra: Record<string, string> = {},
  writes: boolean = true
) {
  const name = findName(error, message, writes) as FailureName
  const { headers = {}, outcome }: Entry = catalogue[name]
  return {
    status: 400,
    headers: {
      ...everyResponse,
      'error-name': name,
      ...headers,
      ...(writes && outcome && { 'write-outcome': outcome }),
      ...extra
    },
    body: JSON.stringify({ error, message })
  }
}

/** The whole response that a success must get. */
export function success(plant: Plant) {
  return { status: 200, headers: everyResponse, body: JSON.stringify(plant) }
}

/** The whole response to a request whose Idempotency-Key had stored the plant before. */
export function replay(plant: Plant) {
  const response = success(plant)
  return { ...response, headers: { ...response.headers, 'idempotent-replayed': 'true' } }
}
