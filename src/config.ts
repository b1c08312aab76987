/** The settings: read once from the environment, checked, typed and frozen. */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { type ConnectionOptions, parseDatabaseUrl } from './database/url.ts'
import type { Limits } from './group-commit/types.ts'
import { StartupFault } from './startup-fault.ts'
import { digestOf, type TokenFile } from './token-file.ts'
import { parseTokens, type Tokens } from './tokens.ts'

type Environment = Record<string, string | undefined>

const integer = (fallback: number, minimum: number, maximum: number) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description: `an integer from ${minimum} to ${maximum}`
  })

/** Longer than Node's timers can wait. */
const maximumMs = 2 ** 31 - 1

/** The plain settings; `description` completes the sentence "NAME must be …". */
const Settings = Type.Object({
  HOST: Type.String({ default: '0.0.0.0' }),
  PORT: integer(3000, 0, 65_535),
  BASE_PATH: Type.String({
    default: '',
    pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$',
    description: 'empty or a path such as /v1, without a slash at its end'
  }),
  DOCS: Type.Union([Type.Literal('on'), Type.Literal('off')], { default: 'on', description: 'on or off' }),
  METRICS_HOST: Type.String({ default: '127.0.0.1' }),
  METRICS_PORT: Type.Union([Type.Integer({ minimum: 0, maximum: 65_535 }), Type.Literal('off')], {
    default: 9464,
    description: 'an integer from 0 to 65535, or off'
  }),
  LOG_LEVEL: Type.Union(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)),
    { default: 'info', description: 'fatal, error, warn, info, debug, trace or silent' }
  ),
  MIGRATION_LOCK: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description: 'on or off'
  }),
  RATE_LIMIT: integer(0, 0, 1_000_000),
  BODY_LIMIT_BYTES: integer(1_048_576, 1, 1_073_741_824),
  BODY_MEMORY_BYTES: integer(67_108_864, 1, 17_179_869_184),
  MAX_CONNECTIONS: integer(16_384, 1, 1_000_000),
  HEADERS_TIMEOUT_MS: integer(10_000, 1, maximumMs),
  REQUEST_TIMEOUT_MS: integer(30_000, 1, maximumMs),
  STARTUP_TIMEOUT_MS: integer(30_000, 1, maximumMs),
  SHUTDOWN_DELAY_MS: integer(5_000, 0, maximumMs),
  SHUTDOWN_TIMEOUT_MS: integer(25_000, 1, maximumMs),
  WRITE_DEADLINE_MS: integer(10_000, 1, maximumMs),
  WRITE_LANES: integer(2, 1, 1_000),
  WRITE_BATCH_ROWS: integer(256, 1, 1_000_000),
  WRITE_BATCH_BYTES: integer(1_048_576, 1, 1_073_741_824),
  WRITE_QUEUE_ROWS: integer(16_384, 1, 1_000_000),
  WRITE_QUEUE_BYTES: integer(67_108_864, 1, 17_179_869_184)
})

/** What the service needs to know; names as in the README's table, times in ms, sizes in bytes. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly basePath: string
  /** Whether the page for people is served. */
  readonly docs: boolean
  /** Undefined where the metrics are off. */
  readonly metrics: { readonly host: string; readonly port: number } | undefined
  readonly logLevel: string
  readonly trustProxy: TrustProxy
  readonly rateLimit: number
  readonly bodyLimitBytes: number
  readonly bodyMemoryBytes: number
  readonly maxConnections: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly startupTimeoutMs: number
  readonly shutdownDelayMs: number
  readonly shutdownTimeoutMs: number
  readonly write: Limits
  readonly database: ConnectionOptions
  readonly tokens: Tokens
  /** Where the tokens came from, if from a file. */
  readonly tokenFile: TokenFile | undefined
}

/** Whose X-Forwarded-For counts: networks, or (address, hop) for a number of hops; false for nobody's. */
export type TrustProxy = false | string[] | ((address: string, hop: number) => boolean)

/** What the migrations need to know. */
export interface MigrationConfig extends Pick<Config, 'startupTimeoutMs' | 'database'> {
  /** False for an engine without advisory locks: the caller sees to it that one migrates at a time. */
  readonly lock?: boolean
}

/** Reads the service's settings. Throws a StartupFault with one line for each missing or bad value. */
export function readConfig(env: Environment): Config {
  return check((faults) => {
    const settings = readSettings(env, faults)
    if (faults.length === 0) checkTogether(settings, faults)
    return {
      host: settings.HOST,
      port: settings.PORT,
      basePath: settings.BASE_PATH,
      docs: settings.DOCS === 'on',
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
      },
      database: readDatabase(env, ['DATABASE_URL'], faults),
      ...readTokens(env, faults)
    }
  })
}

/** Reads the migrations' settings. Throws a StartupFault with one line for each missing or bad value. */
export function readMigrationConfig(env: Environment): MigrationConfig {
  return check((faults) => {
    const { STARTUP_TIMEOUT_MS, MIGRATION_LOCK } = readSettings(env, faults)
    return {
      startupTimeoutMs: STARTUP_TIMEOUT_MS,
      lock: MIGRATION_LOCK === 'on',
      database: readDatabase(env, ['MIGRATION_DATABASE_URL', 'DATABASE_URL'], faults)
    }
  })
}

/** Reads where a process beside the service finds it: the URL of HOST and PORT, with the loopback for all addresses. */
export function readProbeUrl(env: Environment): string {
  const { HOST, PORT } = check((faults) => readSettings(env, faults))
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[HOST] ?? HOST
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${PORT}`
}

function check<T>(read: (faults: string[]) => T): T {
  const faults: string[] = []
  const config = read(faults)
  if (faults.length > 0) throw new StartupFault(faults)
  return Object.freeze(config)
}

function readSettings(env: Environment, faults: string[]): Static<typeof Settings> {
  const given: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(Settings.properties)) {
    const text = env[name] || undefined
    given[name] = property.type !== 'string' && /^\d+$/.test(text ?? '') ? Number(text) : text
  }
  const settings = Value.Default(Settings, given) as Static<typeof Settings>
  for (const [name, property] of Object.entries(Settings.properties)) {
    if (!Value.Check(property, settings[name as keyof typeof settings])) {
      faults.push(`${name} must be ${property.description}`)
    }
  }
  return settings
}

/** The rules that bind one setting to another. */
function checkTogether(settings: Static<typeof Settings>, faults: string[]): void {
  for (const name of ['BODY_MEMORY_BYTES', 'WRITE_QUEUE_BYTES'] as const) {
    if (settings[name] < settings.BODY_LIMIT_BYTES) {
      faults.push(`${name} must not be less than BODY_LIMIT_BYTES`)
    }
  }
  if (settings.SHUTDOWN_TIMEOUT_MS <= settings.SHUTDOWN_DELAY_MS) {
    faults.push('SHUTDOWN_TIMEOUT_MS must be more than SHUTDOWN_DELAY_MS')
  }
}

/** A secret stands in NAME or in the file that NAME_FILE names. */
function readSecret(env: Environment, name: string, faults: string[]): string | undefined {
  const path = env[`${name}_FILE`]
  if (env[name] && path) faults.push(`${name} and ${name}_FILE must not both be set`)
  if (!path) return env[name] || undefined
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    faults.push(`${name}_FILE names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`)
    return undefined
  }
}

/** Takes the first of the variables that is set. */
function readDatabase(env: Environment, names: string[], faults: string[]): ConnectionOptions {
  const before = faults.length
  for (const name of names) {
    const url = readSecret(env, name, faults)
    if (url === undefined) continue
    try {
      return parseDatabaseUrl(url)
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`)
      return {}
    }
  }
  if (faults.length === before) faults.push(`${names.at(-1)} is required`)
  return {}
}

function readTokens(env: Environment, faults: string[]): Pick<Config, 'tokens' | 'tokenFile'> {
  const before = faults.length
  const text = readSecret(env, 'AUTH_TOKENS', faults)
  if (text === undefined) {
    if (faults.length === before) faults.push('AUTH_TOKENS is required')
    return { tokens: new Map(), tokenFile: undefined }
  }
  const { tokens, faults: tokenFaults } = parseTokens(text)
  faults.push(...tokenFaults.map((fault) => `AUTH_TOKENS ${fault}`))
  const path = env.AUTH_TOKENS_FILE
  return { tokens, tokenFile: path ? { path, digest: digestOf(text) } : undefined }
}

const maximumHops = 32

function readTrustProxy(text: string | undefined, faults: string[]): TrustProxy {
  if (!text) return false
  if (/^[1-9]\d?$/.test(text) && Number(text) <= maximumHops) return (_, hop) => hop < Number(text)
  const networks = text.split(',').map((entry) => entry.trim())
  if (networks.every(isNetwork)) return networks
  faults.push(
    `TRUST_PROXY must be a number of hops from 1 to ${maximumHops}, or addresses and networks such as 10.0.0.0/8,::1`
  )
  return false
}

/** An address, or one with the length of its prefix; not all addresses, and none with a zone. */
function isNetwork(text: string): boolean {
  const [, address = '', prefix = '1'] = /^([^/%]+)(?:\/([1-9]\d{0,2}))?$/.exec(text) ?? []
  const version = isIP(address)
  return version !== 0 && Number(prefix) <= (version === 4 ? 32 : 128)
}
