/**
 * The settings. They are read once from the environment, checked, and frozen together with the
 * limits that follow from them.
 */
import { isIP } from 'node:net'
import { FormatRegistry, type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { cancelGraceMs, statementLimitMs } from './database/session.ts'
import { parseDatabaseUrl } from './database/url.ts'
import { isSafeUrl, parseKeys } from './jwt/keys.ts'
import { readSecret } from './secrets.ts'
import { StartupFault } from './startup-fault.ts'
import { parseTokens } from './tokens.ts'

const integerSetting = (fallback: number, minimum: number, maximum: number) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description: `an integer from ${minimum} to ${maximum}`
  })

/** The longest time that a timer of Node can wait, in ms. */
const maximumMs = 2 ** 31 - 1

const textSetting = (fallback: string, pattern: string, description: string) =>
  Type.String({ default: fallback, pattern, description })

// Given a name, Fastify may open one server per address, and only one of them would keep the
// contract. An address with a zone (`%eth0`) is refused, because it cannot stand in a URL.
FormatRegistry.Set('address', (text) => isIP(text) !== 0 && !text.includes('%'))
const addressSetting = (fallback: string) =>
  Type.String({
    default: fallback,
    format: 'address',
    description: 'an IP address such as 127.0.0.1 or ::1'
  })

FormatRegistry.Set('safe-url', (text) => text === '' || isSafeUrl(text))
const urlSetting = () =>
  Type.String({
    default: '',
    format: 'safe-url',
    description: 'an https URL (http only for this machine)'
  })
const visibleSetting = (fallback: string) =>
  textSetting(fallback, '^[!-~]{0,2000}$', 'up to 2000 visible ASCII characters')

const levels = 'fatal, error, warn, info, debug, trace or silent'

/**
 * The settings that are not secrets. docs/configuration.md says what each of them is for.
 * `description` completes the sentence "NAME must be …".
 */
const Settings = Type.Object({
  HOST: addressSetting('0.0.0.0'),
  PORT: integerSetting(3000, 0, 65_535),
  BASE_PATH: textSetting(
    '',
    '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$',
    'empty or a path such as /v1, not /v1/'
  ),
  DOCS: textSetting('on', '^(on|off)$', 'on or off'),
  AUTH_JWT_ISSUER: visibleSetting(''),
  AUTH_JWT_AUDIENCE: visibleSetting(''),
  AUTH_JWT_CALLER: visibleSetting('sub'),
  AUTH_JWT_KEYS_URL: urlSetting(),
  METRICS_HOST: addressSetting('127.0.0.1'),
  METRICS_PORT: integerSetting(9464, 0, 65_535),
  LOG_LEVEL: textSetting('info', `^(${levels.replace(/, | or /g, '|')})$`, levels),
  RATE_LIMIT: integerSetting(0, 0, 1e6),
  // V8 cannot make a text of 2 ** 29 bytes.
  BODY_LIMIT_BYTES: integerSetting(2 ** 20, 1, 2 ** 28),
  MAX_CONNECTIONS: integerSetting(3_072, 1, 1e6),
  REQUEST_TIMEOUT_MS: integerSetting(30_000, 1, maximumMs),
  STARTUP_TIMEOUT_MS: integerSetting(30_000, 1, maximumMs),
  SHUTDOWN_DELAY_MS: integerSetting(5_000, 0, maximumMs),
  WRITE_DEADLINE_MS: integerSetting(10_000, 1, maximumMs),
  WRITE_LANES: integerSetting(3, 1, 1e3),
  WRITE_QUEUE_ROWS: integerSetting(8_192, 1, 1e6)
})
type Settings = Static<typeof Settings>

/**
 * Reads the settings. Adds a line to `faults` for each bad value; then the result must not be used.
 */
function readSettings(env: NodeJS.ProcessEnv, faults: string[]): Settings {
  const entries = Object.entries(Settings.properties).map(([name, property]) => {
    // An editor of another system, or a file of variables, can leave an invisible line end behind a
    // value.
    const text = env[name]?.replace(/[\r\n]+$/, '') || undefined
    const given = property.type !== 'string' && /^\d+$/.test(text ?? '') ? Number(text) : text
    const value = given ?? property.default
    if (!Value.Check(property, value)) faults.push(`${name} must be ${property.description}`)
    return [name, value]
  })
  return Object.fromEntries(entries)
}

/**
 * Variables that change how libpq opens a session. To set one is a fault, because this service
 * would ignore it. The value `disable` is good, because it asks for nothing.
 */
const refusedVariables = new RegExp(
  '^PG(SSL|CHANNELBINDING|REQUIRE|GSSENC|TARGETSESSION|LOADBALANCE|HOSTADDR|' +
    'SERVICE|REPLICATION|BINARY)'
)

function readDatabaseUrl(env: NodeJS.ProcessEnv, name: string, faults: string[]) {
  // With this variable, the driver would load another driver when it is imported.
  if (env.NODE_PG_FORCE_NATIVE) faults.push('NODE_PG_FORCE_NATIVE is not read: unset it')
  for (const [variable, text] of Object.entries(env))
    if (refusedVariables.test(variable) && text && text !== 'disable')
      faults.push(`${variable} is not read: unset it, and write what it asks for into ${name}`)
  return readSecret(env, name, parseDatabaseUrl, faults)
}

/**
 * Reads which tokens of an identity provider are accepted. Returns undefined if no provider is
 * configured.
 */
function readJwt(env: NodeJS.ProcessEnv, settings: Settings, faults: string[]) {
  const { AUTH_JWT_ISSUER: issuer, AUTH_JWT_AUDIENCE: audience, AUTH_JWT_CALLER: claim } = settings
  const { AUTH_JWT_KEYS_URL: keysUrl } = settings
  const hasKeys = Boolean(env.AUTH_JWT_KEYS || env.AUTH_JWT_KEYS_FILE)
  if (!issuer && !audience && !keysUrl && !hasKeys) return undefined
  if (!issuer) faults.push('AUTH_JWT_ISSUER is required beside the other settings AUTH_JWT_…')
  if (!audience) faults.push('AUTH_JWT_AUDIENCE is required beside AUTH_JWT_ISSUER')
  if (keysUrl && hasKeys) faults.push('AUTH_JWT_KEYS_URL and AUTH_JWT_KEYS must not both be set')
  if (issuer && !keysUrl && !hasKeys && !isSafeUrl(issuer))
    faults.push('AUTH_JWT_ISSUER must be an https URL, unless AUTH_JWT_KEYS_URL or _FILE is set')
  const keys = hasKeys ? readSecret(env, 'AUTH_JWT_KEYS', parseKeys, faults) : undefined
  return { issuer, audience, claim, keys, keysUrl }
}

/**
 * The service's configuration: each setting by its own name, the secrets, and the limits that
 * follow from the settings.
 */
export type Config = ReturnType<typeof readConfig>

/**
 * Reads the service's configuration. Throws a StartupFault with one line for each missing or bad
 * value. With `hasStore`, the application has a store of its own, and needs no database.
 */
export function readConfig(env: NodeJS.ProcessEnv, { hasStore = false } = {}) {
  const faults: string[] = []
  const settings = readSettings(env, faults)
  const database = hasStore ? undefined : readDatabaseUrl(env, 'DATABASE_URL', faults)
  const jwt = readJwt(env, settings, faults)
  const hasTokens = Boolean(env.AUTH_TOKENS || env.AUTH_TOKENS_FILE)
  const tokens = hasTokens ? readSecret(env, 'AUTH_TOKENS', parseTokens, faults) : undefined
  if (!hasTokens && !jwt) faults.push('AUTH_TOKENS or AUTH_JWT_ISSUER is required')
  if (faults.length > 0) throw new StartupFault(faults)
  return Object.freeze({ ...settings, ...deriveLimits(settings), database, tokens, jwt })
}

/**
 * For this time before the server closes, each response is the last one on its connection. The time
 * is cut short when no connection is left.
 */
export const noticeMs = 1_500

function deriveLimits(settings: Settings) {
  const { WRITE_DEADLINE_MS: deadlineMs } = settings
  const headersTimeoutMs = Math.min(10_000, settings.REQUEST_TIMEOUT_MS)
  // The last statement of a create can continue after the create's deadline: it may still wait for
  // a session, or be cancelled and then wait until its session is ready (session.ts).
  const lastStatementMs = Math.max(statementLimitMs(deadlineMs), 2 * cancelGraceMs)
  return {
    /** The limits of Node's server: its time-outs in ms, and how many connections may be open. */
    connectionLimits: {
      headersTimeout: headersTimeoutMs,
      requestTimeout: settings.REQUEST_TIMEOUT_MS,
      // Load balancers must close idle connections first (AWS after 60 s, Google after 600 s).
      // Otherwise one could send a request on a connection that is just closing.
      keepAliveTimeout: 620_000,
      maxConnections: settings.MAX_CONNECTIONS
    },
    /**
     * The memory for all bodies that are arriving, in bytes. A caller alone gets half of it. The
     * largest body fits into that half, even in chunks of 1 KiB, each of which counts as a quarter
     * more than its bytes.
     */
    bodyMemoryBytes: Math.max(2 ** 26, 3 * settings.BODY_LIMIT_BYTES),
    /**
     * How long a shutdown may take, in ms. Within this time, every create gets its response and
     * every statement ends. The server closes after the delay and the notice. A request that has
     * begun by then may take as long as a header to arrive, and its create may take until its
     * deadline.
     */
    shutdownTimeoutMs: Math.min(
      maximumMs,
      settings.SHUTDOWN_DELAY_MS + noticeMs + headersTimeoutMs + deadlineMs + lastStatementMs
    ),
    write: {
      deadlineMs,
      lanes: settings.WRITE_LANES,
      /**
       * How many plants share a transaction at most. With so many, the cost per plant of a commit
       * is already small, and with more, the transactions that use savepoints would become slow.
       */
      batchRows: 256,
      /**
       * How many bytes a transaction has at most. A larger one takes so long to write that sharing
       * its commit saves nothing.
       */
      batchBytes: 2 ** 21,
      queueRows: settings.WRITE_QUEUE_ROWS
    }
  }
}

/**
 * Reads the settings of the migrations. Throws a StartupFault with one line for each missing or bad
 * value.
 */
export function readMigrationConfig(env: NodeJS.ProcessEnv) {
  const faults: string[] = []
  const { STARTUP_TIMEOUT_MS: startupTimeoutMs } = readSettings(env, faults)
  const isOwn = env.MIGRATION_DATABASE_URL || env.MIGRATION_DATABASE_URL_FILE
  const url = readDatabaseUrl(env, isOwn ? 'MIGRATION_DATABASE_URL' : 'DATABASE_URL', faults)
  if (!url || faults.length > 0) throw new StartupFault(faults)
  return Object.freeze({ startupTimeoutMs, database: url.value })
}

/**
 * Returns whether the environment turns tracing on (OpenTelemetry specification, "Environment
 * Variable Specification").
 */
export function isTracingOn(env: NodeJS.ProcessEnv): boolean {
  const { OTEL_TRACES_EXPORTER: exporter, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = env
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || exporter === 'none') return false
  return Boolean(exporter || endpoint || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
}
