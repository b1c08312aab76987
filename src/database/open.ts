/** The application's database: its metrics, and a URL that may come from a file and change there. */
import { Gauge } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import { addGauge, prefix } from '../metrics.ts'
import { followSecret, type Secret } from '../secrets.ts'
import { type Check, waitForDatabase } from './checks.ts'
import { Database } from './database.ts'
import { type DatabaseOptions, parseDatabaseUrl } from './url.ts'

/** Opens the database of a URL for the application, whose start waits up to `timeoutMs` until it passes the checks. */
export function openDatabase(
  app: FastifyInstance,
  url: Secret<DatabaseOptions>,
  checks: readonly Check[],
  timeoutMs: number
): Database {
  const { log } = app
  const database = new Database(url.value, log)
  app.addHook('onClose', async () => database.end())
  // Before the application listens. The options are read anew each time: the file of the URL may change meanwhile.
  app.addHook('onReady', async () => {
    const tell = (missing: string) => log.warn({ missing }, 'waiting for the database')
    await waitForDatabase(() => database.options, timeoutMs, checks, tell)
  })

  // A new URL is used once its database passes the checks. So a password may change in the file or in the database first, and
  // a wrong one never replaces a right one.
  const isBroken = followSecret('DATABASE_URL_FILE', url, app, async (text, isNewest) => {
    const next = parseDatabaseUrl(text)
    const current = () => (isNewest() ? next : undefined)
    const tell = (missing: string) =>
      log.warn({ missing }, 'DATABASE_URL_FILE has a URL that does not work yet')
    await waitForDatabase(current, Number.POSITIVE_INFINITY, checks, tell)
    if (isNewest()) database.replaceOptions(next)
  })
  const help = '1 while DATABASE_URL_FILE is broken or does not work'
  addGauge('database_url_file_error', help, () => +isBroken())
  const waitHelp = 'Statements that wait for a connection to the database'
  addGauge('pool_waiting', waitHelp, () => database.state.waiting)
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
  return database
}
