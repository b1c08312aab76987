/** Opening a session on the host that serves (PostgreSQL manual, libpq, "Specifying Multiple Hosts"). */
import pg from 'pg'
import { readOnly } from './errors.ts'
import type { DatabaseOptions } from './url.ts'

/** The longest that one of several hosts may take to connect, so that one that does not respond leaves time for the others. */
const longestOfSeveralMs = 5_000
/** How often TCP probes an idle session, so that no firewall forgets it. */
const keepAliveInitialDelayMillis = 10_000

/** Opens a session; several hosts share the limit equally. Rejects with the error of the only host, or with those of all. */
export type Connector = (limitMs: number, more?: pg.ClientConfig) => Promise<pg.Client>

/** Makes a connector, which begins with the host that it was at last, and goes on to the next if that fails. */
export function createConnector(options: DatabaseOptions): Connector {
  const { hosts, connectionTimeoutMillis: ownLimitMs } = options
  let current = 0

  return async (limitMs, more) => {
    const mostMs = hosts.length > 1 ? Math.min(longestOfSeveralMs, limitMs / hosts.length) : limitMs
    const connectionTimeoutMillis = Math.ceil(Math.min(ownLimitMs || mostMs, mostMs))
    const failures: unknown[] = []
    const lines: string[] = []
    for (const _ of hosts) {
      const tried = current
      const endsAt = performance.now() + connectionTimeoutMillis
      const { host, port } = hosts[tried] as (typeof hosts)[number]
      const target = { host, port, connectionTimeoutMillis, keepAlive: true, keepAliveInitialDelayMillis }
      const client = new pg.Client({ ...options, ...more, ...target })
      // Without a listener, an error before its user listens would end the process.
      client.on('error', () => {})
      try {
        await client.connect()
        if (hosts.length > 1) await requireWritable(client, endsAt - performance.now())
        return client
      } catch (error) {
        // Not awaited: a server that refuses a session may keep its socket open.
        void client.end()
        // Another session may have moved on already, to a host that serves.
        if (current === tried) current = (tried + 1) % hosts.length
        failures.push(error)
        lines.push(`${host}:${port} ${messageOf(error)}`)
      }
    }
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, lines.join('; '))
  }
}

/** A pooler may accept a session whose server is away, so the query has a limit, too. */
async function requireWritable(client: pg.Client, limitMs: number) {
  const query = { text: 'show transaction_read_only', query_timeout: Math.max(1, limitMs) }
  const { rows } = await client.query(query as pg.QueryConfig)
  if (rows[0].transaction_read_only === 'on') throw new Error(readOnly)
}

/** Returns an error's message, or its code: where a name has several addresses, Node's error has no message. */
export const messageOf = (error: unknown): string =>
  (error as Error).message || `${(error as NodeJS.ErrnoException).code}`
