/** The sessions of the database: pools lend them to statements, and all are replaced when a server or the URL changes. */
import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { isReported, isTimedOut, NoConnection } from './errors.ts'
import { createClientClass } from './hosts.ts'
import { createReportCounts } from './reports.ts'
import { onNotice, runStatement } from './statement.ts'
import type { DatabaseOptions } from './url.ts'

interface PoolLimits {
  /** The most sessions that are open at a time. */
  readonly size: number
  /** How long a statement may wait for a session, and then how long it may take, in ms. */
  readonly limitMs: number
}

/** A session, and the driver's pool that it goes back to. */
interface Borrowed {
  readonly driverPool: pg.Pool
  readonly client: pg.PoolClient
}

/** One database and its pools, none at first. Its pools share their options, and a fault of one is a fault of all. */
export class Database {
  /** What PostgreSQL has reported, by SQLSTATE. */
  readonly reports = createReportCounts()
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  readonly #pools: ReplaceablePool[] = []
  #options: DatabaseOptions
  #Client: ReturnType<typeof createClientClass>
  #replacements = 0

  constructor(options: DatabaseOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
    this.#log = log
    this.#options = options
    this.#Client = createClientClass(options)
  }

  /** The options of sessions that are opened from now on. */
  get options(): DatabaseOptions {
    return this.#options
  }

  /** Opens a pool. Statements that only read need one of their own: in that of the writes, they would take sessions of lanes. */
  openPool(limits: PoolLimits): Pool {
    const pool = new ReplaceablePool(this, limits)
    this.#pools.push(pool)
    return pool
  }

  /** Makes a pool of the driver. It opens its sessions when statements need them. */
  createDriverPool({ size, limitMs }: PoolLimits): pg.Pool {
    const pool = new pg.Pool({
      ...this.#options,
      Client: this.#Client,
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: 1_800
    })
    // Without a listener, the failure of an idle session would end the process.
    pool.on('error', () => {})
    return pool
  }

  /** Replaces all sessions: in a failover, each will fail as this one did. A failure in a pool that was replaced already adds nothing. */
  replaceAfterFailure(failed: pg.Pool, error: unknown): void {
    if (failed.ending) return
    this.#log.warn({ err: error }, 'a database connection failed; replacing all connections')
    this.#replacements++
    for (const pool of this.#pools) pool.replaceDriverPool()
  }

  /** Replaces all sessions by ones with these options. */
  replaceOptions(next: DatabaseOptions): void {
    this.#options = next
    this.#Client = createClientClass(next)
    for (const pool of this.#pools) pool.replaceDriverPool()
  }

  /** Sums over all pools: the most sessions, the open and the idle ones, the waiting statements; and the replacements. */
  get state() {
    const state = { size: 0, total: 0, idle: 0, waiting: 0, replacements: this.#replacements }
    for (const { size, driverPool, waiting } of this.#pools) {
      state.size += size
      state.total += driverPool.totalCount
      state.idle += driverPool.idleCount
      state.waiting += waiting
    }
    return state
  }

  /** Ends the sessions, busy ones when their statements are over. */
  async end(): Promise<void> {
    await Promise.all(this.#pools.map(({ driverPool }) => driverPool.end()))
  }
}

/** Runs statements, each in a session of its own. */
export interface Pool {
  /**
   * Runs one statement. When `signal` aborts, or when the statement takes longer than the limit, PostgreSQL is asked to
   * cancel it, and the promise rejects within two seconds. While the statement waits for a session, for which the same limit
   * holds, the promise rejects at once. Rejects with what PostgreSQL or the driver reports.
   */
  query<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>>
  /** Replaces all sessions of the database, because of a fault that was found through one of this pool. */
  replaceAll(cause: unknown): void
}

/** A pool that replaces its sessions by replacing the driver's pool as a whole. */
class ReplaceablePool implements Pool {
  readonly #database: Database
  readonly #limits: PoolLimits
  #driverPool: pg.Pool
  /** The statements that wait for a session. */
  readonly #waits = new Set<Wait>()
  /** Sessions with a statement. If one of them ends, the error of its statement says so. */
  readonly #running = new WeakSet<pg.PoolClient>()

  constructor(database: Database, limits: PoolLimits) {
    this.#database = database
    this.#limits = limits
    this.#driverPool = this.#createDriverPool()
  }

  /** The driver's pool that lends sessions now. */
  get driverPool(): pg.Pool {
    return this.#driverPool
  }

  get size(): number {
    return this.#limits.size
  }

  /** How many statements wait for a session. */
  get waiting(): number {
    return this.#waits.size
  }

  async query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig, signal?: AbortSignal) {
    const { driverPool, client } = await this.#borrow(signal)
    this.#running.add(client)
    const { error, result, isServerLost } = await runStatement(
      client,
      statement,
      this.#limits.limitMs,
      signal
    )
    this.#running.delete(client)
    this.#database.reports.add(error)
    if (isServerLost) this.#database.replaceAfterFailure(driverPool, error)
    if (result === undefined) throw error
    return result as pg.QueryResult<Row>
  }

  replaceAll(cause: unknown): void {
    this.#database.replaceAfterFailure(this.#driverPool, cause)
  }

  /** Ends idle sessions now, and busy ones when their statements are over. */
  replaceDriverPool(): void {
    void this.#driverPool.end()
    this.#driverPool = this.#createDriverPool()
    // The old pool lends nothing more.
    for (const wait of this.#waits) wait.ask()
  }

  #createDriverPool(): pg.Pool {
    const driverPool = this.#database.createDriverPool(this.#limits)
    driverPool.on('connect', (client) => {
      // The error of a session that was ended on purpose says nothing about the server. It may come a quarter of an hour
      // later, when TCP gives up. `_ending` is pg's own mark of such a session.
      const isHarmless = (error: Error) =>
        this.#running.has(client) || Reflect.get(client, '_ending') || isTimedOut(error)
      client.on(
        'error',
        (error) => isHarmless(error) || this.#database.replaceAfterFailure(driverPool, error)
      )
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return driverPool
  }

  /** Borrows a session within the limit, unless the signal aborts, even if the driver's pool is replaced meanwhile. */
  async #borrow(signal: AbortSignal | undefined): Promise<Borrowed> {
    const wait = new Wait(this, this.#database)
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

/** A statement's wait for a session. It is over once its promise is settled. */
class Wait {
  readonly #pool: ReplaceablePool
  readonly #database: Database
  readonly #borrowed = Promise.withResolvers<Borrowed>()
  #isOver = false

  constructor(pool: ReplaceablePool, database: Database) {
    this.#pool = pool
    this.#database = database
  }

  get promise(): Promise<Borrowed> {
    return this.#borrowed.promise
  }

  /** Asks the driver's present pool for a session. If one host fails, the next is tried. */
  ask(): void {
    this.#tryHosts(this.#database.options.hosts?.length ?? 1)
  }

  fail(cause: unknown): void {
    this.#isOver = true
    this.#borrowed.reject(new NoConnection('there is no connection to the database', { cause }))
  }

  /** Tries this many hosts, one after the other; `earlier` is the error to report of those tried before. */
  #tryHosts(count: number, earlier?: unknown) {
    const { driverPool } = this.#pool
    const isAwaited = () => driverPool === this.#pool.driverPool && !this.#isOver
    driverPool.connect().then(
      (client) => {
        if (!isAwaited()) return client.release()
        this.#isOver = true
        this.#borrowed.resolve({ driverPool, client })
      },
      (cause) => {
        if (!isAwaited()) return
        this.#database.reports.add(cause)
        // What PostgreSQL itself has reported explains more than a later host that is only a standby.
        const error = isReported(earlier) ? earlier : cause
        if (count > 1) this.#tryHosts(count - 1, error)
        else this.fail(error)
      }
    )
  }
}
