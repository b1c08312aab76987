/** Which of several hosts a new session goes to (PostgreSQL manual, libpq, "Specifying Multiple Hosts"). */
import pg from 'pg'
import { isReadOnly } from './read-only.ts'
import type { DatabaseOptions } from './url.ts'

/** The longest that one of several hosts may take to connect, so that one that does not respond leaves time for the others. */
const longestOfSeveralMs = 5_000

/**
 * Makes a class of clients for these options. A client connects to one host: the one that the last client connected to or,
 * if that failed, the next. It refuses a read-only host where the options ask for `read-write`. Several hosts share
 * `connectionTimeoutMillis` equally.
 */
export function createClientClass(options: DatabaseOptions) {
  const { hosts = [options], target_session_attrs, requiresChannelBinding, connectTimeoutMs } = options
  let currentIndex = 0

  return class HostClient extends pg.Client {
    readonly #index: number

    constructor(config: pg.ClientConfig = {}) {
      // The pool makes the password non-enumerable: spreading its options would lose it.
      const { password, connectionTimeoutMillis: limitMs = 0 } = config
      const shareMs =
        hosts.length === 1 ? limitMs : Math.ceil(Math.min(longestOfSeveralMs, limitMs / hosts.length))
      const hostLimitMs = Math.min(shareMs, connectTimeoutMs || shareMs)
      const { host, port } = hosts[currentIndex] as DatabaseOptions
      super({ ...config, host, port, password, connectionTimeoutMillis: hostLimitMs })
      this.#index = currentIndex
      // The pool listens only once the client has connected. Without a listener, an error before would end the process.
      this.on('error', () => {})
      if (requiresChannelBinding) requireChannelBinding(this)
    }

    /** The pool passes a callback, and ignores the promise. */
    override connect(callback?: (error: never, client: never) => void): Promise<pg.Client> {
      const connected = this.#connect()
      if (callback)
        connected.then(() => callback(null as never, this as never), callback as (error: unknown) => void)
      return connected
    }

    async #connect(): Promise<pg.Client> {
      try {
        await super.connect()
        if (target_session_attrs === 'read-write' && (await isReadOnly((text) => this.query(text))))
          throw new Error('the server is read-only')
        return this
      } catch (error) {
        // Another client may have moved on already, to a host that serves.
        if (currentIndex === this.#index) currentIndex = (currentIndex + 1) % hosts.length
        // Not awaited: a server that refuses a session may keep its socket open.
        void this.end()
        throw clarify(error, options.ssl)
      }
    }
  }
}

const badCertificate = /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED|DEPTH_ZERO)/

/** Returns the error with a message that names what an operator can change. Node's own messages name command-line options. */
function clarify(error: unknown, ssl: DatabaseOptions['ssl']): unknown {
  const failure = error as NodeJS.ErrnoException
  if (badCertificate.test(failure.code ?? ''))
    failure.message = Reflect.has(Object(ssl), 'ca')
      ? 'the server has a certificate that no authority of sslrootcert has signed'
      : 'the server has a certificate that no public authority has signed: name its own by sslrootcert'
  else if (failure.message === 'Connection terminated unexpectedly')
    failure.message = 'the connection was closed before it was ready: check the host and the port'
  return failure
}

/**
 * Opens a session outside of the pools, on the first host that accepts it. Each host has the time that
 * `createClientClass` grants. Rejects with the error of the only host, or with those of all.
 */
export async function openSession(options: DatabaseOptions, limits: pg.ClientConfig): Promise<pg.Client> {
  const Client = createClientClass(options)
  const { hosts = [options] } = options
  const failures: unknown[] = []
  for (const _ of hosts) {
    try {
      return await new Client({ ...options, ...limits }).connect()
    } catch (error) {
      failures.push(error)
    }
  }
  if (hosts.length === 1) throw failures[0]
  const lines = hosts.map(({ host, port }, index) => `${host}:${port} ${messageOf(failures[index])}`)
  throw new AggregateError(failures, lines.join('; '))
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
  let isOffered = false
  let isProved = false
  const refuse = () => {
    // Fail the client first: it would still act on the rest of the packet before it hears of the destroyed stream.
    connection.emit('error', new Error('the server does not offer the channel binding that the URL requires'))
    connection.stream.destroy()
  }
  connection.on('authenticationCleartextPassword', refuse)
  connection.on('authenticationMD5Password', refuse)
  connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
    isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS')
    if (!isOffered) refuse()
  })
  // The driver checks the signature, and fails the connection if it is wrong.
  connection.on('authenticationSASLFinal', () => {
    isProved = isOffered
  })
  connection.on('authenticationOk', () => isProved || refuse())
}
