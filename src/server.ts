/** The process: reads the environment, listens once the database serves, and ends on a signal. */
import { isatty } from 'node:tty'
import { collectDefaultMetrics } from '@prometheus-io/client'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { isTracingOn, readConfig } from './config.ts'
import { createLogger } from './log.ts'
import { reportStartupFault } from './startup-fault.ts'

/** A terminal that is closed sends SIGHUP. Elsewhere it asks services to read their files again, which this one does anyway. */
const hasTerminal = isatty(0)
/** With a listener, Node goes on after such a fault, which comes again at once and for ever. */
const crashes = ['SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGFPE'] as const

try {
  const config = readConfig(process.env)
  // Not before: a variable that the driver reads when it is imported is a fault.
  const { buildApp } = await import('./app.ts')
  const logger = createLogger(config.LOG_LEVEL)
  collectDefaultMetrics()
  const openTelemetry = isTracingOn(process.env) ? await import('./tracing.ts') : undefined
  const tracing = openTelemetry?.startTracing(process.env, logger)
  const app = await buildApp(config, { logger, tracing })
  if (!hasTerminal) process.on('SIGHUP', () => {})
  try {
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

/** Shuts down at the first signal, or at an uncaught error. Times are in ms. */
function endOnSignals(app: FastifyInstance, delayMs: number, limitMs: number) {
  const onTimeout = () => {
    const { size: connections, pending: requests } = app.connections
    app.log.fatal({ limitMs, connections, requests }, 'shutdown timed out; exiting')
  }
  const skip = hasTerminal ? [...crashes] : ['SIGHUP' as const, ...crashes]
  closeWithGrace({ delay: limitMs, logger: app.log, skip, onTimeout }, async ({ err, signal }) => {
    // npm passes on what a terminal has sent to both. The shutdown has a limit, so no later signal has to hurry it.
    for (const later of ['SIGTERM', 'SIGINT', 'SIGHUP'])
      process.removeAllListeners(later).on(later, () => {})
    if (err) app.log.fatal({ err }, 'uncaught error; shutting down')
    else app.log.info({ signal }, 'shutting down')
    await app.announceShutdown(delayMs)
    await app.close()
    app.log.info('shut down')
  })
}
