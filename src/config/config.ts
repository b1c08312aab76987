/** The settings: read once from the environment, checked, typed and frozen. */
import { parseTokens } from '../auth/tokens.ts'
import { cancelGraceMs, statementLimitMs, statementsPerDeadline } from '../database/statement.ts'
import { parseDatabaseUrl } from '../database/url.ts'
import { StartupFault } from '../failures/startup-fault.ts'
import { rowBytes } from '../plants/columns.ts'
import type { WriteLimits } from '../plants/repository.ts'
import { longestNoticeMs, shortestNoticeMs } from '../shutdown.ts'
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

/** The most bytes of plants in one transaction. A larger one takes so long to write that a shared commit saves nothing. */
const batchBytes = 1_048_576

/** Reads the service's settings. Throws a StartupFault with one line for each missing or bad value. */
export function readConfig(env: Environment) {
  const faults: string[] = []
  const settings = readSettings(env, faults)
  // Only if each setting is valid by itself: a bad one would break these rules, too.
  for (const { name, sum, least } of faults.length === 0 ? crossRules : [])
    if (settings[name] < least(settings)) faults.push(`${name} must be at least ${sum} (${least(settings)})`)
  const url = readUrl(env, ['DATABASE_URL'], faults)
  const tokens = readSecret(env, ['AUTH_TOKENS'], parseTokens, faults)
  if (!url || !tokens || faults.length > 0) throw new StartupFault(faults)
  const { METRICS_HOST: host, METRICS_PORT: port } = settings
  const spareMs = settings.SHUTDOWN_TIMEOUT_MS - shutdownRule.least(settings)
  return Object.freeze({
    ...settings,
    /** How long, during the shutdown, every response ends its connection: longer if SHUTDOWN_TIMEOUT_MS leaves time. */
    noticeMs: Math.min(longestNoticeMs, Math.floor(shortestNoticeMs + spareMs)),
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
  })
}

/** Reads the migrations' settings. Throws a StartupFault with one line for each missing or bad value. */
export function readMigrationConfig(env: Environment) {
  const faults: string[] = []
  const { STARTUP_TIMEOUT_MS: startupTimeoutMs } = readSettings(env, faults)
  const url = readUrl(env, ['MIGRATION_DATABASE_URL', 'DATABASE_URL'], faults)
  if (!url || faults.length > 0) throw new StartupFault(faults)
  return Object.freeze({ startupTimeoutMs, database: url.value })
}

/** Returns whether the environment turns tracing on (OpenTelemetry specification, "Environment Variable Specification"). */
export function isTracingOn(env: Environment): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  const names = ['OTEL_TRACES_EXPORTER', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']
  return names.some((name) => env[name])
}

/** Variables by which libpq changes how every session is opened. The service does not read them, so that they are faults. */
const refusedVariables =
  /^PG(SSL|CHANNELBINDING|REQUIRE|GSSENC|TARGETSESSION|LOADBALANCE|HOSTADDR|SERVICE|REPLICATION|BINARY)/

function readUrl(env: Environment, names: readonly (keyof typeof secrets)[], faults: string[]) {
  const url = findSecret(env, names) ?? names.at(-1)
  for (const name of Object.keys(env))
    if (refusedVariables.test(name) && env[name] && env[name] !== 'disable')
      faults.push(`${name} is not read: unset it, and write what it asks for into ${url}`)
  return readSecret(env, names, parseDatabaseUrl, faults)
}

/** The settings that are numbers. */
type NumberName = { [Name in keyof Settings]: Settings[Name] extends number ? Name : never }[keyof Settings]

/** A part of a sum: its text in a rule, and its value. */
type Term = readonly [text: string, value: (settings: Settings) => number]

const setting = (name: NumberName): Term => [name, (settings) => settings[name]]
const constant = (value: number): Term => [`${value}`, () => value]
/** How long the last statement of a create may go on after the create's deadline, to wait for a session or to be cancelled. */
const lastStatement: Term = [
  `max(WRITE_DEADLINE_MS / ${statementsPerDeadline}, ${cancelGraceMs})`,
  ({ WRITE_DEADLINE_MS: deadlineMs }) => Math.max(statementLimitMs(deadlineMs), cancelGraceMs)
]

/** Makes the rule that a setting is at least the sum of some terms; `sum` completes the sentence "NAME must be at least …". */
const atLeast = (name: NumberName, ...terms: Term[]) => ({
  name,
  sum: terms.map(([text]) => text).join(' + '),
  least: (settings: Settings) => terms.reduce((sum, [, value]) => sum + value(settings), 0)
})

// Within this time, every create gets its response and every statement ends. After the delay and the notice the server
// closes. A request that has begun by then may take HEADERS_TIMEOUT_MS to arrive, and its create WRITE_DEADLINE_MS.
const shutdownRule = atLeast(
  'SHUTDOWN_TIMEOUT_MS',
  setting('SHUTDOWN_DELAY_MS'),
  constant(shortestNoticeMs),
  setting('HEADERS_TIMEOUT_MS'),
  setting('WRITE_DEADLINE_MS'),
  lastStatement
)

/** The rules between settings. */
export const crossRules = [
  atLeast('BODY_MEMORY_BYTES', setting('BODY_LIMIT_BYTES')),
  // A plant's texts take less than its body.
  atLeast('WRITE_QUEUE_BYTES', setting('BODY_LIMIT_BYTES'), constant(rowBytes)),
  shutdownRule
]
