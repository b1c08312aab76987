/** The application's database: its metrics, and a URL that may come from a file and change there. */
import { Gauge } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { addGauge, prefix } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import { type Check, waitForDatabase } from './checks.ts'
import { Database } from './database.ts'
import { type DatabaseOptions, parseDatabaseUrl } from './url.ts'

declare module 'fastify' {
  interface FastifyInstance {
    database: Database
  }
}

interface Options {
  url: Secret<DatabaseOptions>
  /** What a database must pass before it is used. */
  checks: readonly Check[]
  /** How long the start waits for that, in ms. */
  startupTimeoutMs: number
}

export default fp<Options>(async (app, { url, checks, startupTimeoutMs }) => {
  const { log } = app
  const database = new Database(url.value, log)
  app.decorate('database', database)
  app.addHook('onClose', async () => database.end())
  // Before the application listens. The options are read anew each time: the file of the URL may change meanwhile.
  app.addHook('onReady', async () => {
    await waitForDatabase(
      () => database.options,
      startupTimeoutMs,
      checks,
      (missing) => log.warn({ missing }, 'waiting for the database')
    )
  })

  // A new URL is used once its database passes the checks. So a password may change in the file or in the database first, and
  // a wrong one never replaces a right one.
  const isBroken = followSecret('DATABASE_URL_FILE', url, app, async (text, isNewest) => {
    const next = parseDatabaseUrl(text)
    const current = () => (isNewest() ? next : undefined)
    await waitForDatabase(current, Number.POSITIVE_INFINITY, checks, (missing) =>
      log.warn({ missing }, 'DATABASE_URL_FILE has a URL that does not work yet')
    )
    if (isNewest()) database.replaceOptions(next)
  })
  const help = '1 while DATABASE_URL_FILE is broken or does not work'
  addGauge('database_url_file_error', help, () => +isBroken())
  addGauge(
    'pool_waiting',
    'Statements that wait for a connection to the database',
    () => database.state.waiting
  )
  const sessions = new Gauge({
    name: `${prefix}pool_connections`,
    help: 'Connections to the database; busy ones are being opened or run a statement',
    labelNames: ['state'],
    collect() {
      const { idle, busy } = database.state
      sessions.set({ state: 'idle' }, idle)
      sessions.set({ state: 'busy' }, busy)
    }
  })
})
