/** The connections to the database: lent by pools, and all replaced when a server or the URL has changed. */
import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { createReportCounts } from '../metrics/reports.ts'
import { isReported, isTimedOut, NoConnection } from './errors.ts'
import { createClientClass } from './hosts.ts'
import { onNotice, runStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/** The most connections of a pool, and how long a statement may wait for one, and then take, in ms. */
interface PoolLimits {
  readonly size: number
  readonly limitMs: number
}

/** A connection, and the driver's pool that has lent it. */
interface Lent {
  readonly from: pg.Pool
  readonly client: pg.PoolClient
}

/** The pools of the one database, none at first. They share its address, and a fault of one is a fault of all. */
export class Databases {
  /** What PostgreSQL has reported, by SQLSTATE. */
  readonly reports = createReportCounts()
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  readonly #opened: Pool[] = []
  #connection: ConnectionOptions
  #Client: ReturnType<typeof createClientClass>
  #resets = 0

  constructor(connection: ConnectionOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
    this.#log = log
    this.#connection = connection
    this.#Client = createClientClass(connection)
  }

  /** The options with which connections are opened now. */
  get connection(): ConnectionOptions {
    return this.#connection
  }

  /** Opens a pool. Statements that only read need one of their own: in the pool of writes, they would take the lanes' connections. */
  open(limits: PoolLimits): Database {
    const pool = new Pool(this, limits)
    this.#opened.push(pool)
    return pool
  }

  /** Makes a driver's pool of connections, which are opened when they are needed. */
  createPool({ size, limitMs }: PoolLimits): pg.Pool {
    const pool = new pg.Pool({
      ...this.#connection,
      Client: this.#Client,
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: 1_800
    })
    // Without a listener, the failure of a connection would end the process.
    pool.on('error', () => {})
    return pool
  }

  /** In a failover, all connections will fail as this one did. A failure of a pool that has been replaced says nothing new. */
  replaceAfter(failed: pg.Pool, error: unknown): void {
    if (failed.ending) return
    this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
    this.#resets++
    for (const pool of this.#opened) pool.replace()
  }

  /** Uses these options from now on, in all pools. */
  reconnect(next: ConnectionOptions): void {
    this.#connection = next
    this.#Client = createClientClass(next)
    for (const pool of this.#opened) pool.replace()
  }

  /** Sums over all pools: the most connections, the open and the idle ones, the waiting statements, and the replacements. */
  get state() {
    const state = { size: 0, total: 0, idle: 0, waiting: 0, resets: this.#resets }
    for (const { size, current, waiting } of this.#opened) {
      state.size += size
      state.total += current.totalCount
      state.idle += current.idleCount
      state.waiting += waiting
    }
    return state
  }

  /** Closes the connections, busy ones when they are returned. */
  async end(): Promise<void> {
    await Promise.all(this.#opened.map(({ current }) => current.end()))
  }
}

/** Runs statements, each on a connection of its pool. */
export interface Database {
  /**
   * Runs one statement. When `signal` aborts, or when it takes longer than the limit, it is cancelled at the server,
   * and the promise rejects within a second. While it waits for a connection, for which the same limit holds, the
   * promise rejects at once. Rejects with what PostgreSQL or the driver reports.
   */
  query<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>>
  /** Replaces all connections, because of a fault that was found through one of them. */
  reset(cause: unknown): void
}

class Pool implements Database {
  readonly #databases: Databases
  readonly #limits: PoolLimits
  #current: pg.Pool
  /** The statements that wait for a connection. */
  readonly #waits = new Set<Wait>()
  /** Connections that run a statement. If one ends, the error of its statement says so. */
  readonly #lent = new WeakSet<pg.PoolClient>()

  constructor(databases: Databases, limits: PoolLimits) {
    this.#databases = databases
    this.#limits = limits
    this.#current = this.#createPool()
  }

  /** The driver's pool, which is replaced as a whole. */
  get current(): pg.Pool {
    return this.#current
  }

  get size(): number {
    return this.#limits.size
  }

  /** How many statements wait for a connection. */
  get waiting(): number {
    return this.#waits.size
  }

  async query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig, signal?: AbortSignal) {
    const { reports } = this.#databases
    const { from, client } = await this.#lend(signal)
    this.#lent.add(client)
    const { error, result, isServerLost } = await runStatement(
      client,
      statement,
      this.#limits.limitMs,
      signal
    )
    this.#lent.delete(client)
    reports.add(error)
    if (isServerLost) this.#databases.replaceAfter(from, error)
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  reset(cause: unknown): void {
    this.#databases.replaceAfter(this.#current, cause)
  }

  /** Ends idle connections now, and busy ones when they are returned. */
  replace(): void {
    void this.#current.end()
    this.#current = this.#createPool()
    // The old pool lends no more connections.
    for (const wait of this.#waits) wait.ask()
  }

  #createPool(): pg.Pool {
    const pool = this.#databases.createPool(this.#limits)
    pool.on('connect', (client) => {
      // The end of a closed connection means nothing, and may be reported a quarter of an hour later, when TCP gives up.
      // `_ending` is pg's own mark of a connection that was ended on purpose.
      const isHarmless = (error: Error) =>
        this.#lent.has(client) || Reflect.get(client, '_ending') || isTimedOut(error)
      client.on('error', (error) => isHarmless(error) || this.#databases.replaceAfter(pool, error))
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return pool
  }

  /** Lends a connection of the current pool, even if it is replaced meanwhile, within the limit and unless the signal aborts. */
  async #lend(signal: AbortSignal | undefined): Promise<Lent> {
    const wait = new Wait(this, this.#databases)
    const fail = () => wait.fail(signal?.reason)
    const timer = setTimeout(
      () => wait.fail(new Error('no connection was free in time')),
      this.#limits.limitMs
    )
    this.#waits.add(wait)
    signal?.addEventListener('abort', fail)
    if (signal?.aborted) fail()
    else wait.ask()
    try {
      return await wait.promise
    } finally {
      this.#waits.delete(wait)
      clearTimeout(timer)
      signal?.removeEventListener('abort', fail)
    }
  }
}

/** A statement that waits for a connection of the current pool, until its promise is settled. */
class Wait {
  readonly #pool: Pool
  readonly #databases: Databases
  readonly #lent = Promise.withResolvers<Lent>()
  #isOver = false

  constructor(pool: Pool, databases: Databases) {
    this.#pool = pool
    this.#databases = databases
  }

  get promise(): Promise<Lent> {
    return this.#lent.promise
  }

  /** Asks the current pool for a connection; each of the hosts is tried. */
  ask(): void {
    this.#try(this.#databases.connection.hosts?.length ?? 1)
  }

  fail(cause: unknown): void {
    this.#isOver = true
    this.#lent.reject(new NoConnection('there is no connection to the database', { cause }))
  }

  /** Tries so many hosts, one after the other; `before` is the error of the one before. */
  #try(hosts: number, before?: unknown) {
    const from = this.#pool.current
    const isAwaited = () => from === this.#pool.current && !this.#isOver
    from.connect().then(
      (client) => {
        if (!isAwaited()) return client.release()
        this.#isOver = true
        this.#lent.resolve({ from, client })
      },
      (cause) => {
        if (!isAwaited()) return
        this.#databases.reports.add(cause)
        // What PostgreSQL has reported says more than that another host is a standby.
        const told = isReported(before) ? before : cause
        if (hosts > 1) this.#try(hosts - 1, told)
        else this.fail(told)
      }
    )
  }
}
