/** Opening a session on the host that serves (PostgreSQL manual, libpq, "Specifying Multiple Hosts"). */
import pg from 'pg'
import { readOnly } from './errors.ts'
import type { DatabaseOptions } from './url.ts'

/** The longest that one of several hosts may take to connect, so that one that does not respond leaves time for the others. */
const longestOfSeveralMs = 5_000

/** Opens a session; several hosts share the limit equally. Rejects with the error of the only host, or with those of all. */
export type Connector = (limitMs: number, more?: pg.ClientConfig) => Promise<pg.Client>

/** Makes a connector, which begins with the host that it was at last, and goes on to the next if that fails. */
export function createConnector(options: DatabaseOptions): Connector {
  const { hosts, connectTimeoutMs } = options
  let current = 0

  return async (limitMs, more) => {
    const mostMs = Math.min(connectTimeoutMs || limitMs, hosts.length > 1 ? longestOfSeveralMs : limitMs)
    const connectionTimeoutMillis = Math.ceil(Math.min(mostMs, limitMs / hosts.length))
    const failures: Error[] = []
    const lines: string[] = []
    for (const _ of hosts) {
      const tried = current
      const { host, port } = hosts[tried] as (typeof hosts)[number]
      const target = { host, port, connectionTimeoutMillis, keepAlive: true }
      const client = new pg.Client({ ...options, ...more, ...target })
      try {
        await open(client, options)
        return client
      } catch (error) {
        // Not awaited: a server that refuses a session may keep its socket open.
        void client.end()
        // Another session may have moved on already, to a host that serves.
        if (current === tried) current = (tried + 1) % hosts.length
        failures.push(clarify(error, options.ssl))
        lines.push(`${host}:${port} ${messageOf(failures.at(-1))}`)
      }
    }
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, lines.join('; '))
  }
}

async function open(client: pg.Client, { isReadWrite, requiresChannelBinding }: DatabaseOptions) {
  // Without a listener, an error before its user listens would end the process.
  client.on('error', () => {})
  if (requiresChannelBinding) requireChannelBinding(client)
  await client.connect()
  if (!isReadWrite) return
  const { rows } = await client.query('show transaction_read_only')
  if (rows[0].transaction_read_only === 'on') throw new Error(readOnly)
}

const badCertificate = /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED|DEPTH_ZERO)/

/** Names what an operator can change of a certificate that is not trusted: Node's messages name options of its command line. */
function clarify(error: unknown, ssl: DatabaseOptions['ssl']): Error {
  const failure = error as NodeJS.ErrnoException
  if (!badCertificate.test(failure.code ?? '')) return failure
  const authority = Reflect.has(Object(ssl), 'ca') ? 'authority of sslrootcert' : 'public authority'
  failure.message = `the server has a certificate that no ${authority} has signed: name its own by sslrootcert`
  return failure
}

/** Returns an error's message, or its code: where a name has several addresses, Node's error has no message. */
export function messageOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return message || String(code)
}

/**
 * Ends a session whose server has not proved that it is the other end of the TLS session, before anything but the user's
 * name is sent (RFC 5802, section 6). The driver's own option binds only if the server offers it, and a man in the middle
 * does not offer it. Call it before the client connects: these listeners must come before the driver's.
 */
function requireChannelBinding({ connection }: pg.Client) {
  let isProved = false
  const refuse = () => {
    // Fail the client first: it would still act on the rest of the packet before it hears of the destroyed stream.
    connection.emit('error', new Error('the server does not offer the channel binding that the URL requires'))
    connection.stream.destroy()
  }
  connection.on('authenticationCleartextPassword', refuse).on('authenticationMD5Password', refuse)
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    if (!mechanisms.includes('SCRAM-SHA-256-PLUS')) refuse()
  })
  // The driver checks the signature, and fails the connection if it is wrong.
  connection.on('authenticationSASLFinal', () => {
    isProved = true
  })
  connection.on('authenticationOk', () => isProved || refuse())
}
