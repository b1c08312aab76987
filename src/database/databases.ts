/** The pools of the application: moved to the URL of a file that changes, measured, and ended. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { addCounter, addGauge } from '../metrics/metrics.ts'
import { type SecretFile, watchSecretFile } from '../secret-file.ts'
import { createDatabases, type Databases } from './pool.ts'
import { type Check, findMissing } from './readiness.ts'
import { type ConnectionOptions, parseDatabaseUrl } from './url.ts'

declare module 'fastify' {
  interface FastifyInstance {
    databases: Databases
    /** Reads the file with the database's URL again, if there is one. */
    reloadDatabaseUrl(): Promise<void>
  }
}

interface Options {
  registry: Registry
  connection: ConnectionOptions
  /** The file that the connection's URL came from, if any: it is watched. */
  file?: SecretFile | undefined
  /** What a database must pass before its URL is used. */
  checks: Check[]
}

const tryMs = 5_000
/** Not shorter, since PostgreSQL logs each try with a wrong password. */
const pauseMs = 1_000

export default fp<Options>(
  async (app, { registry, connection, file, checks }) => {
    const { log } = app
    const databases = createDatabases(connection, log)
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
    const help = '1 while DATABASE_URL_FILE is broken or does not work'
    addGauge(registry, 'database_url_file_error', help, () => +isBroken())
    const waiting = 'Statements that wait for a connection to the database'
    addGauge(registry, 'pool_waiting', waiting, () => databases.state.waiting)
    const connections = 'Connections to the database; busy ones are being opened or run a statement'
    const byState = ({ total, idle } = databases.state) => ({ idle, busy: total - idle })
    addGauge(registry, 'pool_connections', connections, byState, 'state')
    const resets = 'Replacements of all connections to the database after one was lost'
    addCounter(registry, 'pool_resets', resets, () => databases.state.resets)
  },
  { name: 'databases' }
)
