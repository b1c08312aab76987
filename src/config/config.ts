/** The settings: read once from the environment, checked, typed and frozen. */
import { isIP } from 'node:net'
import type { MigrationOptions } from '../database/migrate.ts'
import { StartupFault } from '../failures/failure.ts'
import type { WriteLimits } from '../plants/repository.ts'
import { checkCrossRules } from './rules.ts'
import { type Environment, readDatabase, readTokens } from './secrets.ts'
import { readSettings } from './settings.ts'

/** What the service needs to know: each setting by its own name, and what some of them make together. */
export type Config = ReturnType<typeof readConfig>

/** The size of the plants in one transaction. Larger ones take so long that sharing their commit saves nothing. */
const batchBytes = 1_048_576

/** Reads the service's settings. Throws a StartupFault with one line for each missing or bad value. */
export function readConfig(env: Environment) {
  return check((faults) => {
    const settings = readSettings(env, faults)
    if (faults.length === 0) checkCrossRules(settings, faults)
    return {
      ...settings,
      /** Undefined where the metrics are off. */
      metrics:
        settings.METRICS_PORT === 'off'
          ? undefined
          : { host: settings.METRICS_HOST, port: settings.METRICS_PORT },
      write: {
        deadlineMs: settings.WRITE_DEADLINE_MS,
        lanes: settings.WRITE_LANES,
        batchRows: settings.WRITE_BATCH_ROWS,
        batchBytes,
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
  return check((faults) => ({
    startupTimeoutMs: readSettings(env, faults).STARTUP_TIMEOUT_MS,
    database: readDatabase(env, ['MIGRATION_DATABASE_URL', 'DATABASE_URL'], faults).database
  }))
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
