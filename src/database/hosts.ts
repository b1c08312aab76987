/** Which of several hosts a new connection goes to (PostgreSQL manual, libpq, "Specifying Multiple Hosts"). */
import pg from 'pg'
import type { ConnectionOptions } from './url.ts'

/**
 * Makes a class of clients for these options. A client connects to one host: the one that served last or, if that has
 * failed, the next. Connecting fails if the host is read-only and must not be. Several hosts share
 * `connectionTimeoutMillis` equally.
 */
export function createClientClass({ hosts = [{}], target_session_attrs }: ConnectionOptions) {
  let current = 0

  return class HostClient extends pg.Client {
    readonly #index: number

    constructor(config: pg.ClientConfig = {}) {
      // The pool makes the password non-enumerable: spreading its options would lose it.
      const { password, connectionTimeoutMillis: limitMs = 0 } = config
      // A host that does not respond must not keep a connection from trying the others for long.
      const ownLimitMs = hosts.length === 1 ? limitMs : Math.ceil(Math.min(5_000, limitMs / hosts.length))
      super({ ...config, ...hosts[current], password, connectionTimeoutMillis: ownLimitMs })
      this.#index = current
      // Until the pool has it, nobody listens for its errors: without a listener, one would end the process.
      this.on('error', () => {})
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
        throw error
      }
    }
  }
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
  const { hosts = [{}] } = options
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
