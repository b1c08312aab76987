/** The process: reads the environment, waits for the database, listens, and ends on a signal. */
import closeWithGrace from 'close-with-grace'
import { buildApp } from './app.ts'
import { isTracingOn, readConfig } from './config.ts'
import { waitForDatabase } from './database/wait-for-database.ts'
import { createLogger } from './log.ts'
import { databaseChecks } from './plants/checks.ts'
import { reportStartupFault } from './startup-fault.ts'

const endingSignals = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
/** A terminal signals a whole group, and npm and `node --watch` forward it: within this time it is the same signal. */
const sameSignalMs = 1_000
/** When the shutdown began. */
let endsSince: number | undefined

try {
  const config = readConfig(process.env)
  const logger = createLogger(config.LOG_LEVEL)
  const openTelemetry = isTracingOn(process.env) ? await import('./tracing.ts') : undefined
  const app = await buildApp(config, logger, { tracing: openTelemetry?.startTracing(process.env, logger) })
  process.on('SIGHUP', () => Promise.all([app.reloadTokens(), app.reloadDatabaseUrl()]))
  try {
    await waitForDatabase(
      () => app.database.options,
      config.STARTUP_TIMEOUT_MS,
      databaseChecks,
      (missing) => logger.warn({ missing }, 'waiting for the database')
    )
    await app.listenForMetrics()
    // After a stall, more connections wait than Node's default backlog of 511 holds. The kernel drops the rest, and those
    // clients hang.
    await app.listen({ host: config.HOST, port: config.PORT, backlog: config.MAX_CONNECTIONS })
  } catch (error) {
    await app.close()
    throw error
  }
  const remaining = () => ({ connections: app.connections.size, requests: app.connections.pending })
  // First, before the log's own listener flushes it: where the shutdown times out, nothing else logs these requests.
  process.prependOnceListener('exit', () => app.logSkipped())
  // Only once the service listens: closeWithGrace makes a process that has nothing left to do exit with 0, and so one that
  // has failed to listen.
  const { close } = closeWithGrace(
    {
      delay: config.shutdownTimeoutMs,
      logger: app.log,
      skip: ['SIGHUP', ...endingSignals],
      onTimeout: (limitMs) => app.log.fatal({ limitMs, ...remaining() }, 'shutdown timed out; exiting')
    },
    async ({ err }) => {
      endsSince = performance.now()
      if (err) app.log.fatal({ err }, 'uncaught error; shutting down')
      await app.announceShutdown(config.SHUTDOWN_DELAY_MS)
      await app.close()
      app.log.info('shut down')
    }
  )
  const end = (signal: NodeJS.Signals) => {
    if (endsSince === undefined) {
      app.log.info({ signal }, 'shutting down')
      void close()
    } else if (performance.now() - endsSince > sameSignalMs) {
      app.log.fatal({ signal, ...remaining() }, 'second signal; exiting now')
      process.exit(1)
    }
  }
  for (const signal of endingSignals) process.on(signal, end)
} catch (error) {
  reportStartupFault(error)
}
