/** The connections to the database: lent, given back, and all replaced when one shows that the server has changed. */

import type { FastifyBaseLogger } from 'fastify'
import pg from 'pg'
import { cancelStatement, type Target } from './cancel.ts'
import { isConnectionLost, NoConnection, OutcomeOpen } from './errors.ts'
import type { ConnectionOptions } from './url.ts'

/** Runs statements, each on a connection of the pool. */
export interface Database {
  /**
   * Runs one statement. It is cancelled at the server when `signal` aborts or when it takes longer than the limit, and
   * the promise rejects within a second; while it waits for a connection, when that is had or the limit has passed.
   * Rejects with what PostgreSQL or the driver reports.
   */
  query<Row extends pg.QueryResultRow>(
    statement: pg.QueryConfig,
    signal?: AbortSignal
  ): Promise<pg.QueryResult<Row>>
  readonly state: PoolState
  /** Closes the connections, busy ones when they are back. */
  end(): Promise<void>
}

/** The connections as they are now. */
export interface PoolState {
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

const cancelGraceMs = 1_000
const maximumAgeSeconds = 1_800

/** Makes the pool. */
export function createPool({ connection, size, limitMs, log }: Options): Database {
  let pool = open()
  let resets = 0

  function open() {
    const fresh = new pg.Pool({
      ...connection,
      application_name: 'plant-store',
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: maximumAgeSeconds
    })
    // Without listeners the failure of a connection would end the process.
    fresh.on('connect', (client) =>
      client.on('error', () => {}).on('notice', ({ routine }) => note(client, routine))
    )
    fresh.on('error', (error) => replace(fresh, error))
    return fresh
  }

  /** What one connection met in a failover all others will meet: idle ones end now, busy ones when they are back. */
  function replace(failed: pg.Pool, error: unknown) {
    if (failed !== pool || failed.ending) return
    log.warn({ err: error }, 'a database connection failed, all are replaced')
    pool = open()
    resets++
    void failed.end()
  }

  return {
    async query(statement, signal) {
      const from = pool
      const client = await from.connect().catch((cause) => {
        throw new NoConnection(cause)
      })
      if (signal?.aborted) {
        client.release()
        throw new NoConnection(signal.reason)
      }
      const { error, result, isLost } = await run(client, statement, limitMs, signal)
      if (isLost) replace(from, error)
      if (result === undefined) throw error
      return result as pg.QueryResult
    },
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
    end: () => pool.end()
  }
}

/** Connections whose last commit was cancelled while it waited for a synchronous standby. */
const unreplicated = new WeakSet<pg.PoolClient>()

/**
 * PostgreSQL cannot take back a commit that waits for its standby: when it is cancelled there it reports success, with
 * a warning (the manual, "Synchronous Replication"), which its code is the only sign of in every language.
 */
function note(client: pg.PoolClient, routine: string | undefined) {
  if (routine === 'SyncRepWaitForLSN') unreplicated.add(client)
}

/** Runs a statement on a connection and gives the connection back, or ends it when it is of no more use. */
async function run(
  client: pg.PoolClient,
  statement: pg.QueryConfig,
  limitMs: number,
  signal: AbortSignal | undefined
) {
  let graceTimer: NodeJS.Timeout | undefined
  let isCancelled = false
  const silence = Promise.withResolvers<never>()
  const cancel = () => {
    isCancelled = true
    cancelStatement(client as pg.PoolClient & Target)
    // A server that does not react is not waited for: to end its connection may take as long as TCP tries.
    graceTimer ??= setTimeout(
      silence.reject,
      cancelGraceMs,
      new Error('the server does not react to a cancel request')
    )
  }
  const timer = setTimeout(cancel, limitMs)
  signal?.addEventListener('abort', cancel, { once: true })
  const outcome = await Promise.race([client.query(statement), silence.promise]).then(
    (result) => ({ result, error: undefined, isLost: false }),
    (error) => ({ result: undefined, error, isLost: isConnectionLost(error) })
  )
  clearTimeout(timer)
  clearTimeout(graceTimer)
  signal?.removeEventListener('abort', cancel)
  // A cancel request that comes late would meet the next statement of this connection.
  client.release(outcome.isLost || isCancelled)
  // A success that was cancelled may be such a commit, too: the server's settings can keep its warning back.
  const isOpen = unreplicated.delete(client) || (isCancelled && outcome.result !== undefined)
  return isOpen
    ? { ...outcome, result: undefined, error: new OutcomeOpen('the commit is not replicated') }
    : outcome
}
