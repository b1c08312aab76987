/** The settings: read once from the environment, checked, typed and frozen. */
import { parseTokens } from '../auth/tokens.ts'
import { cancelGraceMs, statementLimitMs, statementsPerDeadline } from '../database/statement.ts'
import { parseDatabaseUrl } from '../database/url.ts'
import { StartupFault } from '../failures/failure.ts'
import { rowBytes } from '../plants/columns.ts'
import type { WriteLimits } from '../plants/repository.ts'
import { noticeMs } from '../shutdown.ts'
import {
  type Environment,
  findSecret,
  readSecret,
  readSettings,
  type Settings,
  type secrets
} from './settings.ts'

/** The service's configuration: each setting by its own name, and values that combine several. */
export type Config = ReturnType<typeof readConfig>

/** The most bytes of plants in one transaction. A larger one takes so long that sharing its commit saves nothing. */
const batchBytes = 1_048_576

/** Reads the service's settings. Throws a StartupFault with one line for each missing or bad value. */
export function readConfig(env: Environment) {
  return check((faults) => {
    const settings = readSettings(env, faults)
    // Only if each setting is valid by itself: a bad one would break these rules, too.
    for (const { name, sum, least } of faults.length === 0 ? crossRules : [])
      if (settings[name] < least(settings))
        faults.push(`${name} must be at least ${sum} (${least(settings)})`)
    const { METRICS_HOST: host, METRICS_PORT: port } = settings
    const url = readUrl(env, ['DATABASE_URL'], faults)
    const tokens = readSecret(env, ['AUTH_TOKENS'], parseTokens, faults)
    return {
      ...settings,
      /** How long every response ends its connection during the shutdown: what SHUTDOWN_TIMEOUT_MS leaves. */
      noticeMs: Math.min(
        noticeMs.most,
        Math.floor(noticeMs.least + settings.SHUTDOWN_TIMEOUT_MS - leastShutdownMs(settings))
      ),
      /** Undefined where the metrics are off. */
      metrics: port === 'off' ? undefined : { host, port },
      write: {
        deadlineMs: settings.WRITE_DEADLINE_MS,
        lanes: settings.WRITE_LANES,
        batchRows: settings.WRITE_BATCH_ROWS,
        batchBytes,
        queueRows: settings.WRITE_QUEUE_ROWS,
        queueBytes: settings.WRITE_QUEUE_BYTES
      } satisfies WriteLimits,
      database: url.value,
      databaseFile: url.file,
      tokens: tokens.value,
      tokenFile: tokens.file
    }
  })
}

/** Reads the migrations' settings. Throws a StartupFault with one line for each missing or bad value. */
export function readMigrationConfig(env: Environment) {
  const names = ['MIGRATION_DATABASE_URL', 'DATABASE_URL'] as const
  return check((faults) => ({
    startupTimeoutMs: readSettings(env, faults).STARTUP_TIMEOUT_MS,
    database: readUrl(env, names, faults).value
  }))
}

/** Returns whether the environment turns tracing on (OpenTelemetry specification, "Environment Variable Specification"). */
export function isTracingOn(env: Environment): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  const names = ['OTEL_TRACES_EXPORTER', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']
  return names.some((name) => env[name])
}

/** Variables by which libpq or the driver change how every session is opened. What they ask for must not be lost. */
const unread =
  /^PG(SSL|CHANNELBINDING|REQUIRE|GSSENC|TARGETSESSION|LOADBALANCE|HOSTADDR|SERVICE|REPLICATION|BINARY)/

function readUrl(env: Environment, names: readonly (keyof typeof secrets)[], faults: string[]) {
  const url = findSecret(env, names) ?? names.at(-1)
  for (const name of Object.keys(env))
    if (unread.test(name) && env[name] && env[name] !== 'disable')
      faults.push(`${name} is not read: unset it, and write what it asks for into ${url}`)
  return readSecret(env, names, parseDatabaseUrl, faults)
}

function check<T>(read: (faults: string[]) => T): Readonly<T> {
  const faults: string[] = []
  const config = read(faults)
  if (faults.length > 0) throw new StartupFault(faults)
  return Object.freeze(config)
}

function leastShutdownMs({ SHUTDOWN_DELAY_MS, HEADERS_TIMEOUT_MS, WRITE_DEADLINE_MS: deadlineMs }: Settings) {
  const lastStatementMs = Math.max(statementLimitMs(deadlineMs), cancelGraceMs)
  return SHUTDOWN_DELAY_MS + noticeMs.least + HEADERS_TIMEOUT_MS + deadlineMs + lastStatementMs
}

/** The rules between settings: `sum` completes the sentence "NAME must be at least …", `least` computes it. */
export const crossRules = [
  {
    name: 'BODY_MEMORY_BYTES',
    sum: 'BODY_LIMIT_BYTES',
    least: (settings: Settings) => settings.BODY_LIMIT_BYTES
  },
  {
    // A plant's texts take less than its body.
    name: 'WRITE_QUEUE_BYTES',
    sum: `BODY_LIMIT_BYTES + ${rowBytes}`,
    least: (settings: Settings) => settings.BODY_LIMIT_BYTES + rowBytes
  },
  {
    // Within this time, every create gets its response and every statement ends. After the delay and the notice the
    // server closes: a request that has begun may take HEADERS_TIMEOUT_MS to arrive, and its create WRITE_DEADLINE_MS.
    // Its last statement may still wait for a connection then, or be cancelled.
    name: 'SHUTDOWN_TIMEOUT_MS',
    sum: `SHUTDOWN_DELAY_MS + ${noticeMs.least} + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + max(WRITE_DEADLINE_MS / ${statementsPerDeadline}, ${cancelGraceMs})`,
    least: leastShutdownMs
  }
] as const
