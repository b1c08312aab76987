/** The settings and the secrets: the purpose, default and rule of each. docs/configuration.md is made from them. */
import { readFileSync } from 'node:fs'
import { FormatRegistry, type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { StartupFault } from '../failures/startup-fault.ts'
import { digestOf, type SecretFile } from '../secret-file.ts'
import { defaultAddress, highestPort, hostRule, isAddress } from './address.ts'

/** The process's environment variables. */
export type Environment = Record<string, string | undefined>

const integer = (fallback: number, minimum: number, maximum: number, purpose: string) =>
  Type.Integer({
    default: fallback,
    minimum,
    maximum,
    description: `an integer from ${minimum} to ${maximum}`,
    purpose
  })

/** The longest time that Node's timers can wait. */
const maximumMs = 2 ** 31 - 1
const milliseconds = (fallback: number, purpose: string) => integer(fallback, 1, maximumMs, purpose)

FormatRegistry.Set('address', isAddress)

/** Given a name, Fastify opens one server per address, and only one would keep the contract. */
const address = (fallback: string, purpose: string) =>
  Type.String({
    default: fallback,
    format: 'address',
    description: hostRule,
    purpose
  })

/** The settings that are no secrets. `description` completes the sentence "NAME must be …"; `purpose` says what it is for. */
export const Settings = Type.Object({
  HOST: address(defaultAddress.HOST, 'IP address to listen on. `::` means IPv4 and IPv6.'),
  PORT: integer(defaultAddress.PORT, 0, highestPort, 'Port to listen on. 0 takes a free port.'),
  BASE_PATH: Type.String({
    default: '',
    pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$',
    description: 'empty or a path such as /v1, without a slash at its end',
    purpose: 'Path in front of `/plants`.'
  }),
  DOCS: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description: 'on or off',
    purpose: 'API reference at `/` and `/docs`, on or off. `/openapi.json` is always served.'
  }),
  METRICS_HOST: address(defaultAddress.METRICS_HOST, 'IP address of `/metrics` and `/livez`.'),
  METRICS_PORT: Type.Union([Type.Integer({ minimum: 0, maximum: highestPort }), Type.Literal('off')], {
    default: defaultAddress.METRICS_PORT,
    description: 'an integer from 0 to 65535, or off',
    purpose: 'Port of `/metrics` and `/livez`. 0 takes a free port, `off` serves no metrics.'
  }),
  LOG_LEVEL: Type.Union(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => Type.Literal(level)),
    {
      default: 'info',
      description: 'fatal, error, warn, info, debug, trace or silent',
      purpose: 'Lowest level that is logged.'
    }
  ),
  RATE_LIMIT: integer(
    0,
    0,
    1e6,
    'Creates per second for each caller and replica; more get 429. After a second of rest, a caller may send as many at once, so any one second has fewer than twice as many. 0 is no limit.'
  ),
  BODY_LIMIT_BYTES: integer(2 ** 20, 1, 2 ** 30, 'Largest request body.'),
  BODY_MEMORY_BYTES: integer(
    2 ** 26,
    1,
    2 ** 34,
    'Memory for request bodies that are arriving; one beyond it gets 503. One caller can use at most half.'
  ),
  MAX_CONNECTIONS: integer(
    3_072,
    1,
    1e6,
    'Open connections. A further one replaces an idle one; if none is idle, it gets 503.'
  ),
  HEADERS_TIMEOUT_MS: milliseconds(
    10_000,
    'Time for the header of a request to arrive, and then for the first byte of its body.'
  ),
  REQUEST_TIMEOUT_MS: milliseconds(
    30_000,
    'Time for a whole request to arrive, and the longest time a client may go without reading.'
  ),
  STARTUP_TIMEOUT_MS: milliseconds(30_000, 'How long the service and migrations wait for a usable database.'),
  SHUTDOWN_DELAY_MS: integer(
    5_000,
    0,
    maximumMs,
    'Time to continue serving after SIGTERM or SIGINT, while `/readyz` fails.'
  ),
  SHUTDOWN_TIMEOUT_MS: milliseconds(30_000, 'Longest time from the signal to the exit.'),
  WRITE_DEADLINE_MS: milliseconds(
    10_000,
    'Time for a create after its request has arrived; then it gets 503.'
  ),
  WRITE_LANES: integer(3, 1, 1e3, 'Concurrent transactions, each on a connection of its own.'),
  WRITE_BATCH_ROWS: integer(256, 1, 1e6, 'Plants in one transaction.'),
  WRITE_QUEUE_ROWS: integer(
    8_192,
    1,
    1e6,
    'Plants that wait for their outcome; a further one gets 503. One caller can use half. Creates also get 503 while the expected wait exceeds half of `WRITE_DEADLINE_MS` (80 % for a caller with few waiting plants).'
  ),
  WRITE_QUEUE_BYTES: integer(
    2 ** 25,
    1,
    2 ** 34,
    'Size of the plants whose response is not taken; a further one gets 503. One caller can use half.'
  )
})
export type Settings = Static<typeof Settings>

/** Reads the settings. Adds a line to `faults` for each bad one; the result is then of no use. */
export function readSettings(env: Environment, faults: string[]): Settings {
  const entries = Object.entries(Settings.properties).map(([name, property]) => {
    const text = env[name] || undefined
    const given = property.type !== 'string' && /^\d+$/.test(text ?? '') ? Number(text) : text
    const value = given ?? property.default
    if (!Value.Check(property, value)) faults.push(`${name} must be ${property.description}`)
    return [name, value]
  })
  return Object.fromEntries(entries)
}

/** The variables that hold secrets, as docs/configuration.md shows them. */
export const secrets = {
  DATABASE_URL: {
    default: 'required',
    description:
      'a URL such as postgres://user:password@host:5432/database, with several hosts, host1:5432,host2:5432, or with ?host= and the directory of a Unix socket, and with the parameters of docs/configuration.md',
    purpose: 'The database. Its user has the rights that ops/postgresql/roles.sql gives to `plants_service`.',
    example: 'postgres://user:password@127.0.0.1:5432/plants'
  },
  MIGRATION_DATABASE_URL: {
    default: 'DATABASE_URL',
    description: 'a URL as in DATABASE_URL',
    purpose: 'The database for migrations, if they need another user or must bypass a pooler.',
    example: ''
  },
  AUTH_TOKENS: {
    default: 'required',
    description:
      'entries secret, name:secret or name:sha256:<64 hex digits>, separated by commas (in a file, by new lines too); a secret has 16 or more letters, digits or -._~+/',
    purpose: 'Access tokens. Several may share a name. `npm run token -- NAME` makes one.',
    example: 'name:sha256:<64 hex digits>'
  }
} as const

/** Returns the first of these secrets that is set, as NAME or by a file that NAME_FILE names. */
export const findSecret = (env: Environment, names: readonly (keyof typeof secrets)[]) =>
  names.find((name) => env[name] || env[`${name}_FILE`])

/**
 * Reads the first of these secrets that is set; one is required. Returns undefined, and adds a line to `faults`, if none is
 * set or its text cannot be read or parsed: `parse` throws a StartupFault. No line holds a secret.
 */
export function readSecret<T>(
  env: Environment,
  names: readonly (keyof typeof secrets)[],
  parse: (text: string) => T,
  faults: string[]
): { value: T; file: SecretFile | undefined } | undefined {
  const name = findSecret(env, names)
  if (name === undefined) {
    faults.push(`${names.at(-1)} is required`)
    return undefined
  }
  const path = env[`${name}_FILE`]
  let text = env[name] ?? ''
  if (text && path) faults.push(`${name} and ${name}_FILE must not both be set`)
  try {
    if (path) text = readFileSync(path, 'utf8').trim()
    return { value: parse(text), file: path ? { path, digest: digestOf(text) } : undefined }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (error instanceof StartupFault) faults.push(...error.faults.map((fault) => `${name} ${fault}`))
    else faults.push(`${name}_FILE names a file that cannot be read (${code})`)
    return undefined
  }
}
