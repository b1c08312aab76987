/** The connections to the database: lent by pools, returned, and all replaced when one shows that the server has changed. */
import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { isTimedOut, NoConnection } from './errors.ts'
import { createClientClass } from './hosts.ts'
import { onNotice, runStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/** How many connections a pool opens when needed, and how long a statement may wait for one, and then take, in ms. */
interface Limits {
  readonly size: number
  readonly limitMs: number
}

interface Pool extends Limits {
  /** The driver's pool, which is replaced as a whole. */
  current: pg.Pool
  /** The statements that wait for a connection: each function asks the current pool. */
  readonly waiting: Set<() => void>
}

/** The pools of the one database. */
export type Databases = ReturnType<typeof createDatabases>

/** Runs statements, each on a connection of its pool. */
export type Database = ReturnType<Databases['open']>

/** Makes the owner of pools, without any yet. */
export function createDatabases(initial: ConnectionOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
  let connection = initial
  let Client = createClientClass(connection)
  let resets = 0
  const pools: Pool[] = []
  /** Connections that run a statement, whose own error reports their end. */
  const lent = new WeakSet<pg.PoolClient>()

  function connect({ size, limitMs }: Limits): pg.Pool {
    const pool = new pg.Pool({
      ...connection,
      Client,
      application_name: 'plant-store',
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: 1_800
    })
    // Without a listener, the failure of a connection would end the process.
    pool.on('error', () => {})
    pool.on('connect', (client) => {
      // The end of a closed connection may be reported a quarter of an hour later, when TCP gives up, and means nothing.
      // `_ending` is pg's own mark of one that was ended on purpose.
      const isHarmless = (error: Error) =>
        lent.has(client) || Reflect.get(client, '_ending') || isTimedOut(error)
      client.on('error', (error) => isHarmless(error) || reset(pool, error))
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return pool
  }

  /** In a failover, all connections will meet what one has met. A pool that has been replaced says nothing new. */
  function reset(failed: pg.Pool, error: unknown) {
    if (failed.ending) return
    log.warn({ err: error }, 'a database connection failed, all are replaced')
    resets++
    replaceAll()
  }

  /** Ends idle connections now, and busy ones when they are returned. */
  function replaceAll() {
    for (const pool of pools) {
      void pool.current.end()
      pool.current = connect(pool)
      // The old pool lends no more connections.
      for (const ask of pool.waiting) ask()
    }
  }

  /** Lends a connection of the current pool, even if it is replaced meanwhile, within the limit and unless the signal aborts. */
  function lend(pool: Pool, signal: AbortSignal | undefined) {
    const { promise, resolve, reject } = Promise.withResolvers<{ from: pg.Pool; client: pg.PoolClient }>()
    const ask = (hosts = connection.hosts?.length ?? 1) => {
      const from = pool.current
      const isAwaited = () => from === pool.current && pool.waiting.has(ask)
      from.connect().then(
        (client) => {
          if (!isAwaited()) return client.release()
          end()
          resolve({ from, client })
        },
        (cause) => {
          if (!isAwaited()) return
          if (hosts > 1) ask(hosts - 1)
          else giveUp(cause)
        }
      )
    }
    const end = () => {
      pool.waiting.delete(ask)
      clearTimeout(timer)
    }
    const giveUp = (cause: unknown) => {
      end()
      reject(new NoConnection(cause))
    }
    const abort = () => giveUp(signal?.reason)
    const timer = setTimeout(() => giveUp(new Error('no connection was free in time')), pool.limitMs)
    if (signal?.aborted) abort()
    else {
      signal?.addEventListener('abort', abort)
      pool.waiting.add(ask)
      ask()
    }
    return promise
  }

  return {
    /** The options with which connections are opened now. */
    get connection() {
      return connection
    },

    /** Opens a pool. Statements that only read need one of their own: in that of the writes they would take the lanes' connections. */
    open(limits: Limits) {
      const pool: Pool = { ...limits, current: connect(limits), waiting: new Set() }
      pools.push(pool)
      return {
        /**
         * Runs one statement. When `signal` aborts, or when it takes longer than the limit, it is cancelled at the server,
         * and the promise rejects within a second. While it waits for a connection, for which the same limit holds, the
         * promise rejects at once. Rejects with what PostgreSQL or the driver reports.
         */
        async query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig, signal?: AbortSignal) {
          const { from, client } = await lend(pool, signal)
          lent.add(client)
          const { error, result, isServerLost } = await runStatement(
            client,
            statement,
            limits.limitMs,
            signal
          )
          lent.delete(client)
          if (isServerLost) reset(from, error)
          if (result === undefined) throw error
          return result as pg.QueryResult<Row>
        },
        /** Replaces all connections, for a reason that was found over one of them. */
        reset: (cause: unknown) => reset(pool.current, cause)
      }
    },

    /** Uses these options from now on, in all pools. */
    reconnect(next: ConnectionOptions) {
      connection = next
      Client = createClientClass(next)
      replaceAll()
    },

    /** Of all pools: the most connections, those there are, the statements that wait for one, and the replacements after a loss. */
    get state() {
      const state = { size: 0, total: 0, idle: 0, waiting: 0, resets }
      for (const { current, waiting, size } of pools) {
        state.size += size
        state.total += current.totalCount
        state.idle += current.idleCount
        state.waiting += waiting.size
      }
      return state
    },

    /** Closes the connections, busy ones when they are returned. */
    async end() {
      await Promise.all(pools.map(({ current }) => current.end()))
    }
  }
}
