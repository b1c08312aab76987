/** The plain settings: what each is for, its default and its range. docs/configuration.md is made from them. */
import { isIP } from 'node:net'
import { FormatRegistry, type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Environment } from './secrets.ts'

const integer = (fallback: number, minimum: number, maximum: number, purpose: string) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description: `an integer from ${minimum} to ${maximum}`,
    purpose
  })

const onOff = (purpose: string) =>
  Type.Union([Type.Literal('on'), Type.Literal('off')], { default: 'on', description: 'on or off', purpose })

/** An address without a zone, which a URL cannot hold. */
FormatRegistry.Set('address', (text) => isIP(text) !== 0 && !text.includes('%'))

/** Behind a name Fastify would open a server for each of its addresses, and the contract would hold for one of them. */
const address = (fallback: string, purpose: string) =>
  Type.String({
    default: fallback,
    format: 'address',
    description: 'an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several',
    purpose
  })

/** Longer than Node's timers can wait. */
const maximumMs = 2 ** 31 - 1

/** The plain settings; `description` completes the sentence "NAME must be …", `purpose` is a text of its own. */
export const Settings = Type.Object({
  HOST: address('0.0.0.0', 'Address to listen on. `::` listens on IPv4 and IPv6.'),
  PORT: integer(3000, 0, 65_535, 'Port to listen on. 0 takes a free port.'),
  BASE_PATH: Type.String({
    default: '',
    pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$',
    description: 'empty or a path such as /v1, without a slash at its end',
    purpose: 'Path in front of `/plants`.'
  }),
  DOCS: onOff('Serves the API reference at `/` and `/docs`. `/openapi.json` is served in either case.'),
  METRICS_HOST: address('127.0.0.1', 'Address on which Prometheus finds `/metrics`.'),
  METRICS_PORT: Type.Union([Type.Integer({ minimum: 0, maximum: 65_535 }), Type.Literal('off')], {
    default: 9464,
    description: 'an integer from 0 to 65535, or off',
    purpose: 'Port of `/metrics`. 0 takes a free port, `off` serves no metrics.'
  }),
  LOG_LEVEL: Type.Union(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)),
    {
      default: 'info',
      description: 'fatal, error, warn, info, debug, trace or silent',
      purpose: 'The lowest level that is logged.'
    }
  ),
  MIGRATION_LOCK: onOff(
    'Migrations that run at the same time wait for one another by an advisory lock. `off` is for an engine without such locks; then only one process may migrate at a time.'
  ),
  RATE_LIMIT: integer(
    0,
    0,
    1_000_000,
    'Creates per second for each caller and replica. Further creates get 429. 0 sets no limit.'
  ),
  BODY_LIMIT_BYTES: integer(1_048_576, 1, 1_073_741_824, 'Size of the largest request body.'),
  BODY_MEMORY_BYTES: integer(
    67_108_864,
    1,
    17_179_869_184,
    'Memory for the request bodies that are arriving. Creates beyond it get 503.'
  ),
  MAX_CONNECTIONS: integer(
    16_384,
    1,
    1_000_000,
    'Connections that are served. Creates on further connections get 503.'
  ),
  HEADERS_TIMEOUT_MS: integer(10_000, 1, maximumMs, 'How long the header of a request may take to arrive.'),
  REQUEST_TIMEOUT_MS: integer(30_000, 1, maximumMs, 'How long a whole request may take to arrive.'),
  STARTUP_TIMEOUT_MS: integer(
    30_000,
    1,
    maximumMs,
    'How long the service and the migrations wait at start-up for a usable database.'
  ),
  SHUTDOWN_DELAY_MS: integer(
    5_000,
    0,
    maximumMs,
    'How long the service continues to serve after SIGTERM or SIGINT. `/readyz` fails in that time.'
  ),
  SHUTDOWN_TIMEOUT_MS: integer(
    30_000,
    1,
    maximumMs,
    'How long the process may take to exit after the signal.'
  ),
  WRITE_DEADLINE_MS: integer(
    10_000,
    1,
    maximumMs,
    'How long a create may take, counted from its complete request. Then it gets 503.'
  ),
  WRITE_LANES: integer(
    3,
    1,
    1_000,
    'Concurrent transactions. A replica has one connection to PostgreSQL more.'
  ),
  WRITE_BATCH_ROWS: integer(256, 1, 1_000_000, 'Plants in one transaction.'),
  WRITE_BATCH_BYTES: integer(1_048_576, 1, 1_073_741_824, 'Size of the plants in one transaction.'),
  WRITE_QUEUE_ROWS: integer(
    16_384,
    1,
    1_000_000,
    'Plants that wait for their response. Creates beyond it get 503, and so do creates that would wait for more than half of `WRITE_DEADLINE_MS`.'
  ),
  WRITE_QUEUE_BYTES: integer(
    67_108_864,
    1,
    17_179_869_184,
    'Size of the plants that wait for their response. Creates beyond it get 503.'
  )
})
export type Settings = Static<typeof Settings>

/** Reads them; adds a line to `faults` for each that is bad. */
export function readSettings(env: Environment, faults: string[]): Settings {
  const given: Record<string, unknown> = {}
  for (const [name, property] of Object.entries(Settings.properties)) {
    const text = env[name] || undefined
    given[name] = property.type !== 'string' && /^\d+$/.test(text ?? '') ? Number(text) : text
  }
  const settings = Value.Default(Settings, given) as Settings
  for (const [name, property] of Object.entries(Settings.properties)) {
    if (!Value.Check(property, settings[name as keyof Settings])) {
      faults.push(`${name} must be ${property.description}`)
    }
  }
  return settings
}
