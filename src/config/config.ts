/** The settings: read once from the environment, checked, typed and frozen. */
import { isIP } from 'node:net'
import type { MigrationOptions } from '../database/migrate.ts'
import { StartupFault } from '../failures/startup-fault.ts'
import type { WriteLimits } from '../plants/repository.ts'
import { checkCrossRules } from './rules.ts'
import { type Environment, readDatabase, readTokens } from './secrets.ts'
import { readSettings, readTrustProxy } from './settings.ts'

/** What the service needs to know; names as in docs/configuration.md, times in ms, sizes in bytes. */
export type Config = ReturnType<typeof readConfig>

/** Reads the service's settings. Throws a StartupFault with one line for each missing or bad value. */
export function readConfig(env: Environment) {
  return check((faults) => {
    const settings = readSettings(env, faults)
    if (faults.length === 0) checkCrossRules(settings, faults)
    return {
      host: settings.HOST,
      port: settings.PORT,
      basePath: settings.BASE_PATH,
      docs: settings.DOCS === 'on',
      /** Undefined where the metrics are off. */
      metrics:
        settings.METRICS_PORT === 'off'
          ? undefined
          : { host: settings.METRICS_HOST, port: settings.METRICS_PORT },
      logLevel: settings.LOG_LEVEL,
      trustProxy: readTrustProxy(env.TRUST_PROXY, faults),
      rateLimit: settings.RATE_LIMIT,
      bodyLimitBytes: settings.BODY_LIMIT_BYTES,
      bodyMemoryBytes: settings.BODY_MEMORY_BYTES,
      maxConnections: settings.MAX_CONNECTIONS,
      headersTimeoutMs: settings.HEADERS_TIMEOUT_MS,
      requestTimeoutMs: settings.REQUEST_TIMEOUT_MS,
      startupTimeoutMs: settings.STARTUP_TIMEOUT_MS,
      shutdownDelayMs: settings.SHUTDOWN_DELAY_MS,
      shutdownTimeoutMs: settings.SHUTDOWN_TIMEOUT_MS,
      write: {
        deadlineMs: settings.WRITE_DEADLINE_MS,
        lanes: settings.WRITE_LANES,
        batchRows: settings.WRITE_BATCH_ROWS,
        batchBytes: settings.WRITE_BATCH_BYTES,
        queueRows: settings.WRITE_QUEUE_ROWS,
        queueBytes: settings.WRITE_QUEUE_BYTES
      } satisfies WriteLimits,
      ...readDatabase(env, ['DATABASE_URL'], faults),
      ...readTokens(env, faults)
    }
  })
}

/** Reads the migrations' settings. Throws a StartupFault with one line for each missing or bad value. */
export function readMigrationConfig(env: Environment): MigrationOptions {
  return check((faults) => {
    const { STARTUP_TIMEOUT_MS, MIGRATION_LOCK } = readSettings(env, faults)
    return {
      startupTimeoutMs: STARTUP_TIMEOUT_MS,
      lock: MIGRATION_LOCK === 'on',
      database: readDatabase(env, ['MIGRATION_DATABASE_URL', 'DATABASE_URL'], faults).database
    }
  })
}

/** Reads the URL at which another process of this machine finds the service: of HOST and PORT, or the loopback for all addresses. */
export function readProbeUrl(env: Environment): string {
  const { HOST, PORT } = check((faults) => readSettings(env, faults))
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[HOST] ?? HOST
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${PORT}`
}

function check<T>(read: (faults: string[]) => T): Readonly<T> {
  const faults: string[] = []
  const config = read(faults)
  if (faults.length > 0) throw new StartupFault(faults)
  return Object.freeze(config)
}
