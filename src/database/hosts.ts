/** Which of several hosts a new connection goes to (PostgreSQL manual, libpq, "Specifying Multiple Hosts"). */
import type { Duplex } from 'node:stream'
import pg from 'pg'
import type { ConnectionOptions } from './url.ts'

/**
 * Makes a class of clients for these options. A client connects to one host: the one that served last or, if that has
 * failed, the next. Connecting fails if the host is read-only and must not be. Several hosts share
 * `connectionTimeoutMillis` equally.
 */
export function createClientClass(options: ConnectionOptions) {
  const { hosts = [options], target_session_attrs, requiresChannelBinding, connectTimeoutMs } = options
  let current = 0

  return class HostClient extends pg.Client {
    readonly #index: number

    constructor(config: pg.ClientConfig = {}) {
      // The pool makes the password non-enumerable: spreading its options would lose it.
      const { password, connectionTimeoutMillis: limitMs = 0 } = config
      // A host that does not respond must not keep a connection from trying the others for long.
      const shareMs = hosts.length === 1 ? limitMs : Math.ceil(Math.min(5_000, limitMs / hosts.length))
      const ownLimitMs = Math.min(shareMs, connectTimeoutMs || shareMs)
      const { host, port } = hosts[current] as ConnectionOptions
      super({ ...config, host, port, password, connectionTimeoutMillis: ownLimitMs })
      this.#index = current
      // Until the pool has it, nobody listens for its errors: without a listener, one would end the process.
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
        // If another client has moved on already, the current host may be one that serves.
        if (current === this.#index) current = (current + 1) % hosts.length
        // Not awaited: a server that refuses may keep its end open.
        void this.end()
        throw clarify(error, options.ssl)
      }
    }
  }
}

/**
 * Ends a session whose server has not proved that it is the other end of the TLS session (RFC 5802, section 6), before
 * anything but the user's name is sent. The driver's own option uses channel binding only if the server offers it, and a
 * man in the middle does not. Call it before the client connects: these listeners must come before the driver's.
 */
function requireChannelBinding(client: pg.Client) {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter & { stream: Duplex } }
  let isOffered = false
  let isProved = false
  const refuse = () => {
    // Emitted first: what has arrived in the same packet is processed before the stream's own error.
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

const badCertificate = /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED|DEPTH_ZERO)/

/** Returns the error with a message that says what an operator can change; Node's speak of the process's options. */
function clarify(error: unknown, ssl: ConnectionOptions['ssl']): unknown {
  const failure = error as NodeJS.ErrnoException
  if (badCertificate.test(failure.code ?? ''))
    failure.message = Reflect.has(Object(ssl), 'ca')
      ? 'the server has a certificate that no authority of sslrootcert has signed'
      : 'the server has a certificate that no public authority has signed: name its own by sslrootcert'
  else if (failure.message === 'Connection terminated unexpectedly')
    failure.message = 'the connection was closed before it was ready: check the host and the port'
  return failure
}

/** Returns whether a server refuses writes: a standby does, and so does one that an operator has made read-only. */
export async function isReadOnly(query: (text: string) => Promise<pg.QueryResult>): Promise<boolean> {
  const { rows } = await query('show transaction_read_only')
  return rows[0].transaction_read_only === 'on'
}

/**
 * Opens a connection outside of the pools to the first host that accepts it. Each host has the time that
 * `createClientClass` grants. Rejects with the error of the only host, or with those of all.
 */
export async function connect(options: ConnectionOptions, limits: pg.ClientConfig): Promise<pg.Client> {
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

/** Returns the message of a failed connection, or its code: the error of a name with several addresses has no message. */
export function messageOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return message || String(code)
}
