/** The connections to the database: lent, returned, and all replaced when one shows that the server has changed. */
import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { isTimedOut, NoConnection } from './errors.ts'
import { countHosts, createClientClass } from './hosts.ts'
import { onNotice, runStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/** Runs statements, each on a connection of the pool. */
export interface Database {
  /**
   * Runs one statement. When `signal` aborts, or when it takes longer than the limit, it is cancelled at the server, and
   * the promise rejects within a second. While it waits for a connection, for which the same limit holds, the promise
   * rejects at once. Rejects with what PostgreSQL or the driver reports.
   */
  query<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>>
  /** Replaces all connections, for a reason that was found over one of them. */
  reset(cause: unknown): void
  /** The connections as they are now, the statements that wait for one, and how often all were replaced. */
  readonly state: Readonly<Record<'total' | 'idle' | 'waiting' | 'resets', number>>
  /** Uses these options from now on. Existing connections end, busy ones when they are returned. */
  reconnect(connection: ConnectionOptions): void
  /** Closes the connections, busy ones when they are returned. */
  end(): Promise<void>
}

/** What a pool is made of. */
export interface PoolOptions {
  connection: ConnectionOptions
  /** The most connections; none is opened before it is needed. */
  size: number
  /** How long a statement may wait for a connection, and then take, in ms. */
  limitMs: number
  log: Pick<FastifyBaseLogger, 'warn'>
}

/** pg's own mark of a connection that was ended on purpose; its pool reads it, too. */
type Ending = pg.PoolClient & { _ending: boolean }

const maximumAgeSeconds = 1_800

/** Makes the pool. */
export function createPool({ connection: initial, size, limitMs, log }: PoolOptions): Database {
  let connection = initial
  let Client = createClientClass(connection)
  let pool = open()
  let resets = 0
  /** The statements that wait for a connection: each function asks the current pool. */
  const waiting = new Set<() => void>()
  /** Connections that run a statement, whose own error reports their end. */
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
    // Without a listener, the failure of a connection would end the process.
    fresh.on('error', () => {})
    fresh.on('connect', (client) => {
      // The end of a closed connection may be reported a quarter of an hour later, when TCP gives up, and means nothing.
      const isTold = (error: Error) => lent.has(client) || (client as Ending)._ending || isTimedOut(error)
      client.on('error', (error) => isTold(error) || resetPool(fresh, error))
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return fresh
  }

  /** In a failover, all connections will meet what one has met: idle ones end now, busy ones when they are returned. */
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
    // The old pool lends no more connections.
    for (const ask of waiting) ask()
  }

  /** Lends a connection of the current pool, even if it is replaced meanwhile, within the limit and unless the signal aborts. */
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
    get state() {
      const { totalCount: total, idleCount: idle, waitingCount: waiting } = pool
      return { total, idle, waiting, resets }
    },
    reconnect(next) {
      connection = next
      Client = createClientClass(next)
      replacePool()
    },
    end: () => pool.end()
  }
}
