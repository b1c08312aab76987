/**
 * Opens sessions. If the URL has several hosts, they are tried one after the other, beginning with
 * the one that served last (PostgreSQL manual, libpq, "Specifying Multiple Hosts").
 */
import type pg from 'pg'
import type { Check } from './checks.ts'
import { Client } from './client.ts'
import { readOnly } from './errors.ts'
import { expire, openSocket, type Target } from './socket.ts'
import type { DatabaseOptions } from './url.ts'

/**
 * How long one of several hosts may take to connect at most, so that a host that does not respond
 * leaves time for the others.
 */
const longestOfSeveralMs = 5_000

/**
 * Opens a session within a limit of ms, which several hosts share equally. Rejects with the error
 * of the only host, or with an AggregateError of all hosts' errors.
 */
export type Connector = (limitMs: number, more?: pg.ClientConfig) => Promise<Client>

const checkWritable: Check = async (client) => {
  const { rows } = await client.query('show transaction_read_only')
  return rows[0].transaction_read_only === 'on' ? readOnly : undefined
}

/**
 * Makes a connector. It begins with the host that served last, and goes on to the next host if a
 * session cannot be opened there or does not pass the checks.
 */
export function createConnector(
  options: DatabaseOptions,
  checks: readonly Check[] = options.hosts.length > 1 ? [checkWritable] : []
): Connector {
  const { hosts, connectionTimeoutMillis: ownLimitMs } = options
  let current = 0

  return async (limitMs, more) => {
    const mostMs = hosts.length > 1 ? Math.min(longestOfSeveralMs, limitMs / hosts.length) : limitMs
    const hostLimitMs = Math.ceil(Math.min(ownLimitMs || mostMs, mostMs))
    const failures: unknown[] = []
    const lines: string[] = []
    for (const _ of hosts) {
      const tried = current
      const target = hosts[tried] as Target
      try {
        return await open({ ...options, ...more }, target, hostLimitMs, checks)
      } catch (error) {
        // Another call may have moved on to a host that serves. Leave that as it is.
        if (current === tried) current = (tried + 1) % hosts.length
        failures.push(error)
        lines.push(`${target.host}:${target.port} ${messageOf(error)}`)
      }
    }
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, lines.join('; '))
  }
}

/**
 * Opens a session on one host. A pooler accepts sessions even if its server cannot be reached, and
 * the first statement then hangs. So the limit covers the checks, too.
 */
async function open(
  options: DatabaseOptions & pg.ClientConfig,
  target: Target,
  limitMs: number,
  checks: readonly Check[]
): Promise<Client> {
  const endsAt = performance.now() + limitMs
  const socket = await openSocket(target, options.readTls(), limitMs)
  const client = new Client(socket, target, options)
  const timer = setTimeout(() => expire(socket), endsAt - performance.now())
  try {
    await client.connect()
    for (const check of checks) {
      const missing = await check(client)
      if (missing !== undefined) throw new Error(missing)
    }
    return client
  } catch (error) {
    client.abandon()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Returns the message of an error, or its code if it has none. If a name has several addresses and
 * none can be reached, Node's error has no message.
 */
export const messageOf = (error: unknown): string =>
  (error as Error).message || `${(error as NodeJS.ErrnoException).code}`
