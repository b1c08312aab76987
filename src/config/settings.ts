/** The plain settings: their defaults, their ranges and the rules that bind one to another. */
import { isIP } from 'node:net'
import { FormatRegistry, type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { leavingRule, longestLeaveMs } from './leaving.ts'
import type { Environment } from './secrets.ts'

const integer = (fallback: number, minimum: number, maximum: number) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description: `an integer from ${minimum} to ${maximum}`
  })

/** An address without a zone, which a URL cannot hold. */
FormatRegistry.Set('address', (text) => isIP(text) !== 0 && !text.includes('%'))

/** Behind a name Fastify would open a server for each of its addresses, and the contract would hold for one of them. */
const address = (fallback: string) =>
  Type.String({
    default: fallback,
    format: 'address',
    description: 'an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several'
  })

/** Longer than Node's timers can wait. */
const maximumMs = 2 ** 31 - 1

/** The plain settings; `description` completes the sentence "NAME must be …". */
const Settings = Type.Object({
  HOST: address('0.0.0.0'),
  PORT: integer(3000, 0, 65_535),
  BASE_PATH: Type.String({
    default: '',
    pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$',
    description: 'empty or a path such as /v1, without a slash at its end'
  }),
  DOCS: Type.Union([Type.Literal('on'), Type.Literal('off')], { default: 'on', description: 'on or off' }),
  METRICS_HOST: address('127.0.0.1'),
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
  SHUTDOWN_TIMEOUT_MS: integer(30_000, 1, maximumMs),
  WRITE_DEADLINE_MS: integer(10_000, 1, maximumMs),
  WRITE_LANES: integer(3, 1, 1_000),
  WRITE_BATCH_ROWS: integer(256, 1, 1_000_000),
  WRITE_BATCH_BYTES: integer(1_048_576, 1, 1_073_741_824),
  WRITE_QUEUE_ROWS: integer(16_384, 1, 1_000_000),
  WRITE_QUEUE_BYTES: integer(67_108_864, 1, 17_179_869_184)
})

/** Reads them; adds a line to `faults` for each that is bad. */
export function readSettings(env: Environment, faults: string[]): Static<typeof Settings> {
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

/** Adds a line to `faults` for each rule between settings that is broken. */
export function checkTogether(settings: Static<typeof Settings>, faults: string[]): void {
  if (settings.BODY_MEMORY_BYTES < settings.BODY_LIMIT_BYTES) {
    faults.push('BODY_MEMORY_BYTES must not be less than BODY_LIMIT_BYTES')
  }
  // A plant takes less than its body, and 64 bytes beside its texts.
  if (settings.WRITE_QUEUE_BYTES < settings.BODY_LIMIT_BYTES + 64) {
    faults.push('WRITE_QUEUE_BYTES must not be less than BODY_LIMIT_BYTES + 64')
  }
  const leaveMs = longestLeaveMs(settings)
  if (settings.SHUTDOWN_TIMEOUT_MS <= leaveMs) {
    faults.push(`SHUTDOWN_TIMEOUT_MS must be more than ${leaveMs}: ${leavingRule}`)
  }
}
