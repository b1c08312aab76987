/** The connections to the database: lent by pools, and all replaced when a server or the URL has changed. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import pg from 'pg'
import { addCounter, addGauge } from '../metrics/metrics.ts'
import { createReportCounts } from '../metrics/reports.ts'
import { type SecretFile, watchSecretFile } from '../secret-file.ts'
import type { Check } from './checks.ts'
import { isReported, isTimedOut, NoConnection } from './errors.ts'
import { createClientClass } from './hosts.ts'
import { findMissing } from './readiness.ts'
import { onNotice, runStatement } from './statement.ts'
import { type ConnectionOptions, parseDatabaseUrl } from './url.ts'

declare module 'fastify' {
  interface FastifyInstance {
    databases: Databases
    /** Reads the file with the database's URL again, if there is one. */
    reloadDatabaseUrl(): Promise<void>
  }
}

/** The most connections of a pool, and how long a statement may wait for one, and then take, in ms. */
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
  const reports = createReportCounts()
  const pools: Pool[] = []
  /** Connections that run a statement. If one ends, the error of its statement says so. */
  const lent = new WeakSet<pg.PoolClient>()

  function connect({ size, limitMs }: Limits): pg.Pool {
    const pool = new pg.Pool({
      ...connection,
      Client,
      keepAlive: true,
      max: size,
      connectionTimeoutMillis: limitMs,
      maxLifetimeSeconds: 1_800
    })
    // Without a listener, the failure of a connection would end the process.
    pool.on('error', () => {})
    pool.on('connect', (client) => {
      // The end of a closed connection means nothing, and may be reported a quarter of an hour later, when TCP gives up.
      // `_ending` is pg's own mark of a connection that was ended on purpose.
      const isHarmless = (error: Error) =>
        lent.has(client) || Reflect.get(client, '_ending') || isTimedOut(error)
      client.on('error', (error) => isHarmless(error) || reset(pool, error))
      client.on('notice', ({ routine }) => onNotice(client, routine))
    })
    return pool
  }

  /** In a failover, all connections will fail as this one did. A failure of a pool that has been replaced says nothing new. */
  function reset(failed: pg.Pool, error: unknown) {
    if (failed.ending) return
    log.warn({ err: error }, 'a database connection failed; replacing all connections')
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
    const ask = (hosts = connection.hosts?.length ?? 1, before?: unknown) => {
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
          reports.add(cause)
          // What PostgreSQL has reported says more than that another host is a standby.
          const told = isReported(before) ? before : cause
          if (hosts > 1) ask(hosts - 1, told)
          else giveUp(told)
        }
      )
    }
    const end = () => {
      pool.waiting.delete(ask)
      clearTimeout(timer)
    }
    const giveUp = (cause: unknown) => {
      end()
      reject(new NoConnection('there is no connection to the database', { cause }))
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
    /** What PostgreSQL has reported, by SQLSTATE. */
    reports,

    /** The options with which connections are opened now. */
    get connection() {
      return connection
    },

    /** Opens a pool. Statements that only read need one of their own: in the pool of writes, they would take the lanes' connections. */
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
          reports.add(error)
          if (isServerLost) reset(from, error)
          if (result === undefined) throw error
          return result as pg.QueryResult<Row>
        },
        /** Replaces all connections, because of a fault that was found through one of them. */
        reset: (cause: unknown) => reset(pool.current, cause)
      }
    },

    /** Uses these options from now on, in all pools. */
    reconnect(next: ConnectionOptions) {
      connection = next
      Client = createClientClass(next)
      replaceAll()
    },

    /** Sums over all pools: the most connections, the open and the idle ones, the waiting statements, and the replacements. */
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

/** The URL may come from a file, which is watched: a database must pass the checks before it is used. */
interface PluginOptions {
  registry: Registry
  connection: ConnectionOptions
  file?: SecretFile | undefined
  checks: Check[]
}

function warnOfClearText({ exposedHost: host }: ConnectionOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
  const text = 'connections to the database are not encrypted: add an sslmode to its URL, or sslmode=disable'
  if (host !== undefined) log.warn({ host }, text)
}

const tryMs = 5_000
/** Not shorter, since PostgreSQL logs each try with a wrong password. */
const pauseMs = 1_000

export default fp<PluginOptions>(
  async (app, { registry, connection, file, checks }) => {
    const { log } = app
    const databases = createDatabases(connection, log)
    warnOfClearText(connection, log)
    let newest = connection

    const followed = watchSecretFile('DATABASE_URL_FILE', file, log, (text) => {
      newest = parseDatabaseUrl(text)
      void tryOut(newest)
      return {}
    })

    /**
     * Uses a new URL once it connects and the database passes the checks. So a password may change in the file or in the
     * database first, and a wrong one never replaces a right one.
     */
    async function tryOut(next: ConnectionOptions) {
      let known: string | undefined
      for (;;) {
        const missing = await findMissing(next, tryMs, checks).catch(({ message }) => message)
        if (next !== newest) return
        if (missing === undefined) break
        if (missing !== known) log.warn({ missing }, 'DATABASE_URL_FILE has a URL that does not work yet')
        known = missing
        await sleep(pauseMs, undefined, { ref: false })
      }
      databases.reconnect(next)
      warnOfClearText(next, log)
      log.info('the connections are replaced by those of DATABASE_URL_FILE')
    }

    app.decorate('databases', databases)
    app.decorate('reloadDatabaseUrl', followed.reload)
    app.addHook('onClose', async () => {
      followed.close()
      newest = databases.connection
      await databases.end()
    })

    const isBroken = () => followed.isBroken() || newest !== databases.connection
    const broken = '1 while DATABASE_URL_FILE is broken or does not work'
    addGauge(registry, 'database_url_file_error', broken, () => +isBroken())
    const waiting = 'Statements that wait for a connection to the database'
    addGauge(registry, 'pool_waiting', waiting, () => databases.state.waiting)
    const connections = 'Connections to the database; busy ones are being opened or run a statement'
    const byState = ({ total, idle } = databases.state) => ({ idle, busy: total - idle })
    addGauge(registry, 'pool_connections', connections, byState, 'state')
    const resets = 'Replacements of all connections to the database after one was lost'
    addCounter(registry, 'pool_resets', resets, () => databases.state.resets)
    const errors =
      'Errors that PostgreSQL has reported to statements and new connections, by SQLSTATE; a refused plant can have several'
    addCounter(registry, 'database_errors', errors, () => databases.reports.counts, 'sqlstate')
    const exhausted = '1 while PostgreSQL lacks resources: SQLSTATE class 53 or 58 in the last 15 s'
    addGauge(registry, 'database_exhausted', exhausted, () => +databases.reports.isExhausted)
  },
  { name: 'databases' }
)
