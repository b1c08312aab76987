/** The database of an application: its connections, their metrics, and a URL that may come from a file. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import { addCounter, addGauge } from '../metrics/metrics.ts'
import { type SecretFile, watchSecretFile } from '../secret-file.ts'
import type { Check } from './checks.ts'
import { Databases } from './pool.ts'
import { type ConnectionOptions, parseDatabaseUrl } from './url.ts'
import { findMissing } from './wait-for-database.ts'

declare module 'fastify' {
  interface FastifyInstance {
    databases: Databases
    /** Reads the file with the database's URL again, if there is one. */
    reloadDatabaseUrl(): Promise<void>
  }
}

/** A URL from the file is used once its database has passed the checks. */
interface Options {
  registry: Registry
  initial: ConnectionOptions
  file?: SecretFile | undefined
  checks: Check[]
}

const tryMs = 5_000
/** Not shorter, since PostgreSQL logs each try with a wrong password. */
const retryEveryMs = 1_000

export default fp<Options>(
  async (app, { registry, initial, file, checks }) => {
    const { log } = app
    const databases = new Databases(initial, log)
    warnOfClearText(initial, log)
    let newest = initial

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
        await sleep(retryEveryMs, undefined, { ref: false })
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
    addGauge(
      registry,
      'database_url_file_error',
      '1 while DATABASE_URL_FILE is broken or does not work',
      () => +isBroken()
    )
    addDatabaseMetrics(registry, databases)
  },
  { name: 'databases' }
)

function warnOfClearText({ exposedHost: host }: ConnectionOptions, log: Pick<FastifyBaseLogger, 'warn'>) {
  const text = 'connections to the database are not encrypted: add an sslmode to its URL, or sslmode=disable'
  if (host !== undefined) log.warn({ host }, text)
}

function addDatabaseMetrics(registry: Registry, databases: Databases) {
  const waiting = 'Statements that wait for a connection to the database'
  addGauge(registry, 'pool_waiting', waiting, () => databases.state.waiting)
  const connections = 'Connections to the database; busy ones are being opened or run a statement'
  const byState = () => {
    const { total, idle } = databases.state
    return { idle, busy: total - idle }
  }
  addGauge(registry, 'pool_connections', connections, byState, 'state')
  const resets = 'Replacements of all connections to the database after one was lost'
  addCounter(registry, 'pool_resets', resets, () => databases.state.resets)
  const errors = 'Errors that PostgreSQL has reported to statements and new connections, by SQLSTATE'
  addCounter(registry, 'database_errors', errors, () => databases.reports.counts, 'sqlstate')
  const exhausted = '1 while PostgreSQL lacks resources: SQLSTATE class 53 or 58 in the last 15 s'
  addGauge(registry, 'database_exhausted', exhausted, () => +databases.reports.isExhausted)
}
