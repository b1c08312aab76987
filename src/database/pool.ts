/** The connections to the database: lent, given back, and all replaced when one shows that the server has changed. */
import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { isTimedOut, NoConnection } from './errors.ts'
import { countHosts, createClientClass } from './hosts.ts'
import { onNotice, runStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/** Runs statements, each on a connection of the pool. */
export interface Database {
  /**
   * Runs one statement. It is cancelled at the server when `signal` aborts or when it takes longer than the limit, and
   * the promise rejects within a second; at once while it waits for a connection, for which it has the limit, too.
   * Rejects with what PostgreSQL or the driver reports.
   */
  query<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>>
  /** Replaces all connections, for a reason that was found over one of them. */
  reset(cause: unknown): void
  readonly state: PoolStats
  /** How connections are opened by now. */
  readonly connection: ConnectionOptions
  /** Connects as these options say from now on; connections that there are end, busy ones when they are back. */
  reconnect(connection: ConnectionOptions): void
  /** Closes the connections, busy ones when they are back. */
  end(): Promise<void>
}

/** The connections as they are now. */
export interface PoolStats {
  readonly total: number
  readonly idle: number
  /** Statements that wait for one. */
  readonly waiting: number
  /** How often all were replaced. */
  readonly resets: number
}

interface Options {
  connection: ConnectionOptions
  /** Connections at the most; none is opened before it is needed. */
  size: number
  /** How long a connection may take to be had, and then a statement to be answered, in ms. */
  limitMs: number
  log: Pick<FastifyBaseLogger, 'warn'>
}

/** pg's own note that a connection was ended by us; its pool reads it, too. */
type Ending = pg.PoolClient & { _ending: boolean }

const maximumAgeSeconds = 1_800

/** Makes the pool. */
export function createPool({ connection: initial, size, limitMs, log }: Options): Database {
  let connection = initial
  let Client = createClientClass(connection)
  let pool = open()
  let resets = 0
  /** Those who wait for a connection: each asks the pool, as it is then. */
  const waiting = new Set<() => void>()
  /** Connections with a statement, which tells what their end means. */
  const lent = new WeakSet<pg.PoolClient>()

  function open() {
    const fresh = new pg.Pool({
      ...connection,
      Client,
      application_name: 'plant-store',
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: maximumAgeSeconds
    })
    // Without listeners the failure of a connection would end the process.
    fresh.on('error', () => {})
    fresh.on('connect', (client) => {
      // One that was ended may be reported a quarter of an hour later, when TCP has given up: that says nothing any more.
      const isTold = (error: Error) => lent.has(client) || (client as Ending)._ending || isTimedOut(error)
      client.on('error', (error) => isTold(error) || resetPool(fresh, error))
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return fresh
  }

  /** What one connection met in a failover all others will meet: idle ones end now, busy ones when they are back. */
  function resetPool(failed: pg.Pool, error: unknown) {
    if (failed !== pool || failed.ending) return
    log.warn({ err: error }, 'a database connection failed, all are replaced')
    resets++
    replacePool()
  }

  function replacePool() {
    const last = pool
    pool = open()
    void last.end()
    // A pool that ends serves nobody any more.
    for (const ask of waiting) ask()
  }

  /** Gives a connection of the pool that is the last one by then, in the limit's time and unless the signal aborts. */
  function lend(signal: AbortSignal | undefined) {
    const { promise, resolve, reject } = Promise.withResolvers<{ from: pg.Pool; client: pg.PoolClient }>()
    let isOver = false
    const ask = (hosts = countHosts(connection)) => {
      const from = pool
      from.connect().then(
        (client) => {
          if (isOver || from !== pool) return client.release()
          end()
          resolve({ from, client })
        },
        (cause) => {
          if (isOver || from !== pool) return
          if (hosts > 1) ask(hosts - 1)
          else giveUp(cause)
        }
      )
    }
    const end = () => {
      isOver = true
      waiting.delete(ask)
      clearTimeout(timer)
    }
    const giveUp = (cause: unknown) => {
      end()
      reject(new NoConnection(cause))
    }
    const abort = () => giveUp(signal?.reason)
    const timer = setTimeout(() => giveUp(new Error('no connection was free in time')), limitMs)
    if (signal?.aborted) abort()
    else {
      signal?.addEventListener('abort', abort)
      waiting.add(ask)
      ask()
    }
    return promise
  }

  return {
    async query(statement, signal) {
      const { from, client } = await lend(signal)
      lent.add(client)
      const { error, result, isServerLost } = await runStatement(client, statement, limitMs, signal)
      lent.delete(client)
      if (isServerLost) resetPool(from, error)
      if (result === undefined) throw error
      return result as pg.QueryResult
    },
    reset: (cause) => resetPool(pool, cause),
    state: {
      get total() {
        return pool.totalCount
      },
      get idle() {
        return pool.idleCount
      },
      get waiting() {
        return pool.waitingCount
      },
      get resets() {
        return resets
      }
    },
    get connection() {
      return connection
    },
    reconnect(next) {
      connection = next
      Client = createClientClass(next)
      replacePool()
    },
    end: () => pool.end()
  }
}
