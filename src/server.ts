/** The process: reads the environment, waits for the database, listens, and ends on a signal. */
import { isatty } from 'node:tty'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import { isTracingOn, readConfig } from './config.ts'
import { waitForDatabase } from './database/checks.ts'
import { createLogger } from './log.ts'
import { databaseChecks } from './plants/checks.ts'
import { reportStartupFault } from './startup-fault.ts'

/** A terminal signals a whole group, and npm and `node --watch` forward it: within this time it is the same signal. */
const sameSignalMs = 1_000
const endingSignals = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
/** A terminal that is closed sends SIGHUP. Elsewhere it asks services to read their files again, which this one does anyway. */
const hasTerminal = isatty(0)

try {
  const config = readConfig(process.env)
  const logger = createLogger(config.LOG_LEVEL)
  const openTelemetry = isTracingOn(process.env) ? await import('./tracing.ts') : undefined
  const app = await buildApp(config, logger, openTelemetry?.startTracing(process.env, logger))
  if (!hasTerminal) process.on('SIGHUP', () => {})
  try {
    await waitForDatabase(
      // Read anew each time: the file of the URL may change meanwhile.
      () => app.database.options,
      config.STARTUP_TIMEOUT_MS,
      databaseChecks,
      (missing) => logger.warn({ missing }, 'waiting for the database')
    )
    // After a stall, more connections wait than Node's default backlog of 511 holds. The kernel drops the rest, and those
    // clients hang.
    await app.listen({ host: config.HOST, port: config.PORT, backlog: config.MAX_CONNECTIONS })
  } catch (error) {
    await app.close()
    throw error
  }
  // Only once the service listens: closeWithGrace makes a process that has nothing left to do exit with 0, and so one that
  // has failed to listen.
  endOnSignals(app, config.SHUTDOWN_DELAY_MS, config.shutdownTimeoutMs)
} catch (error) {
  reportStartupFault(error)
}

/** Shuts down at the first signal, or at an uncaught error; a later signal ends the process at once. Times are in ms. */
function endOnSignals(app: FastifyInstance, delayMs: number, limitMs: number) {
  /** When the shutdown began. */
  let endsSince: number | undefined
  const remaining = () => ({ connections: app.connections.size, requests: app.connections.pending })
  const { close } = closeWithGrace(
    {
      delay: limitMs,
      logger: app.log,
      skip: [...endingSignals, 'SIGHUP'],
      onTimeout: (limitMs) => app.log.fatal({ limitMs, ...remaining() }, 'shutdown timed out; exiting')
    },
    async ({ err }) => {
      endsSince = performance.now()
      if (err) app.log.fatal({ err }, 'uncaught error; shutting down')
      await app.announceShutdown(delayMs)
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
  if (hasTerminal) process.on('SIGHUP', end)
}
