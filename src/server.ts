/**
 * The process. It reads the environment, builds the application, listens once the database can be
 * used, and shuts down on a signal.
 */
import { isatty } from 'node:tty'
import { collectDefaultMetrics } from '@prometheus-io/client'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { isTracingOn, readConfig } from './config.ts'
import { createLogger } from './log.ts'
import { reportStartupFault } from './startup-fault.ts'

/**
 * When its terminal closes, a process gets SIGHUP, and must end. Without a terminal, SIGHUP asks a
 * service to read its files again. This service does that by itself, so it ignores the signal.
 */
const hasTerminal = isatty(0)
/**
 * Node would continue after such a signal if it had a listener. The fault would come back at once,
 * again and again.
 */
const crashes = ['SIGSEGV', 'SIGBUS', 'SIGILL', 'SIGFPE'] as const

try {
  const config = readConfig(process.env)
  // `readConfig` refuses NODE_PG_FORCE_NATIVE, which the driver reads when it is imported. So
  // import the application, and with it the driver, only now.
  const { buildApp } = await import('./app.ts')
  const logger = createLogger(config.LOG_LEVEL)
  collectDefaultMetrics()
  const openTelemetry = isTracingOn(process.env) ? await import('./tracing.ts') : undefined
  const tracing = openTelemetry?.startTracing(process.env, logger)
  const app = await buildApp(config, { logger, tracing })
  if (!hasTerminal) process.on('SIGHUP', () => {})
  try {
    // After a stall, more connections wait than Node's default backlog of 511 holds. The kernel
    // drops the rest, and those clients hang.
    await app.listen({ host: config.HOST, port: config.PORT, backlog: config.MAX_CONNECTIONS })
  } catch (error) {
    await app.close()
    throw error
  }
  // Do this only once the service listens. With closeWithGrace, a process that has nothing left to
  // do exits with 0, and so would one that failed to listen.
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
    // When a terminal sends a signal to npm and to this process, npm passes it on, so it comes
    // twice. Ignore later signals: the shutdown has a time limit anyway.
    for (const later of ['SIGTERM', 'SIGINT', 'SIGHUP'])
      process.removeAllListeners(later).on(later, () => {})
    if (err) app.log.fatal({ err }, 'uncaught error; shutting down')
    else app.log.info({ signal }, 'shutting down')
    // The first part of the shutdown is in plugins/health.ts.
    await app.announceShutdown(delayMs)
    await app.close()
    app.log.info('shut down')
  })
}
