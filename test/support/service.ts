/** The service as users run it: a process of its own, asked over HTTP, with a database of its own. */
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import { parseMetrics } from './metrics-page.ts'
import { createDatabase, query } from './postgres/database.ts'
import { type Running, serverFile, start } from './process.ts'
import { maskFields, type Reply } from './responses.ts'
import type { Teardown } from './teardown.ts'

/** A secret of the caller `tester`. */
export const token = 'tester-secret-0123456789'

/** The header fields of a good request. */
export const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }

/** The header fields of a good request with this key. */
export const keyed = (key: string) => ({ headers: { ...headers, 'idempotency-key': key } })

/** Limits that no machine is too slow for, and an end that does not wait for a balancer. */
const patientSettings = {
  REQUEST_TIMEOUT_MS: '120000',
  STARTUP_TIMEOUT_MS: '120000',
  WRITE_DEADLINE_MS: '120000',
  SHUTDOWN_DELAY_MS: '0'
}

/** A line of the log. */
export type Line = Record<string, unknown> & { level: number; msg: string }

/** The service, running. */
export interface Service extends Running {
  /** Where it listens, such as http://127.0.0.1:41234. */
  url: string
  databaseUrl: string
  /** The lines of the log so far: one of a request may come after its response. */
  log(): Line[]
  /** The page of metrics, parsed. */
  metrics(): Promise<ReturnType<typeof parseMetrics>>
  metricsUrl(): string
  /** Runs a statement in the database, and returns its rows. */
  rows(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** Posts a body to /plants: text as it stands, anything else as JSON. */
  post(body: unknown, options?: Sent): Promise<Reply>
}

/**
 * Starts the service, or another release's `file`, on a free port; `env` adds to its settings or replaces them. Resolves when it listens; it is killed at
 * teardown.
 */
export async function startService(
  t: Teardown,
  env: Record<string, string> = {},
  { file = serverFile, ...options }: { file?: string; flags?: string[] } = {}
): Promise<Service> {
  const databaseUrl = env.DATABASE_URL ?? (await createDatabase(t))
  const settings = {
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_URL: databaseUrl,
    AUTH_TOKENS: `tester:${token}`,
    ...patientSettings,
    ...env
  }
  const running = start(t, file, settings, options)
  const [text, url] = await running.output(
    /Server listening at (http:[^"]+)|"[^"]*does not fit this release.*/
  )
  // It would wait for a migration.
  if (url === undefined) throw new Error(text)
  const metricsUrl = () => /"Metrics at ([^"]+)"/.exec(running.text())?.[1] ?? ''
  return {
    ...running,
    url,
    databaseUrl,
    log: () => linesOf(running.text()),
    metricsUrl,
    metrics: async () => parseMetrics((await send(metricsUrl(), { method: 'GET' })).body),
    rows: (sql, values) => query(databaseUrl, sql, values),
    post: (body, options) => post(`${url}${env.BASE_PATH ?? ''}/plants`, body, options)
  }
}

/** Parses what a log has in whole lines. */
export function linesOf(text: string): Line[] {
  const whole = text.split('\n').slice(0, -1)
  return whole.map((line) => JSON.parse(line))
}

/** How a request is sent. */
export interface Sent {
  method?: string
  headers?: OutgoingHttpHeaders
  signal?: AbortSignal
  /** The connections to use instead of those of the test file. */
  agent?: Agent | undefined
}

/** Holds the connections of all requests of a test file. */
const agent = new Agent({ keepAlive: true, maxSockets: 256 })

/** Posts a body, as the tests' caller, to any address. */
export const post = (url: string, body: unknown, options: Sent = {}): Promise<Reply> =>
  send(
    url,
    { method: 'POST', headers, ...options },
    typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  )

/** Sends a request, and returns the whole response with masked fields. Rejects where there is none. */
export function send(url: string, options: Sent, body?: string | Uint8Array): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, ...options }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk))
      response.on('error', reject).on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: maskFields(response.headers),
          body: text
        })
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
