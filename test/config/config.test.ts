/** The settings: what is read from the environment, and the exact line for each value that is wrong. */
import { hash } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { readConfig, readMigrationConfig } from '../../src/config/config.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'

type Environment = Record<string, string | undefined>

const secret = 'abcdefghijklmnop'
const required = { DATABASE_URL: 'postgres://gardener:thyme@db.test:5433/plants', AUTH_TOKENS: secret }
const connection = parseDatabaseUrl(required.DATABASE_URL)

/** Reads the settings; in place of the tokens, which are functions, the caller of the secret. */
function read(env: Environment) {
  const config = readConfig(env)
  return { ...config, tokens: config.tokens.findCaller(secret) }
}

function faultsOf(read: (env: Environment) => unknown, env: Environment): readonly string[] {
  try {
    read(env)
    return []
  } catch (error) {
    if (!(error instanceof StartupFault)) throw error
    return error.faults
  }
}

/** The faults of the service's settings when the required ones are good and these are set. */
const faults = (env: Environment) => faultsOf(readConfig, { ...required, ...env })

t.test('with the required settings alone, all others have their defaults, and all are frozen', async (t) => {
  t.ok(Object.isFrozen(readConfig(required)))
  t.strictSame(read(required), {
    HOST: '0.0.0.0',
    PORT: 3000,
    BASE_PATH: '',
    DOCS: 'on',
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: 9464,
    metrics: { host: '127.0.0.1', port: 9464 },
    noticeMs: 1_666,
    LOG_LEVEL: 'info',
    RATE_LIMIT: 0,
    BODY_LIMIT_BYTES: 1_048_576,
    BODY_MEMORY_BYTES: 67_108_864,
    MAX_CONNECTIONS: 3_072,
    HEADERS_TIMEOUT_MS: 10_000,
    REQUEST_TIMEOUT_MS: 30_000,
    STARTUP_TIMEOUT_MS: 30_000,
    SHUTDOWN_DELAY_MS: 5_000,
    SHUTDOWN_TIMEOUT_MS: 30_000,
    WRITE_DEADLINE_MS: 10_000,
    WRITE_LANES: 3,
    WRITE_BATCH_ROWS: 256,
    WRITE_QUEUE_ROWS: 8_192,
    WRITE_QUEUE_BYTES: 33_554_432,
    write: {
      deadlineMs: 10_000,
      lanes: 3,
      batchRows: 256,
      batchBytes: 1_048_576,
      queueRows: 8_192,
      queueBytes: 33_554_432
    },
    database: connection,
    tokens: 'default',
    databaseFile: undefined,
    tokenFile: undefined
  })
})

t.test('every variable is read', async (t) => {
  const texts = { HOST: '::1', BASE_PATH: '/store/v1', DOCS: 'off', METRICS_HOST: '::', LOG_LEVEL: 'debug' }
  const numbers = {
    PORT: 8080,
    METRICS_PORT: 9000,
    RATE_LIMIT: 50,
    BODY_LIMIT_BYTES: 2048,
    BODY_MEMORY_BYTES: 4096,
    MAX_CONNECTIONS: 100,
    HEADERS_TIMEOUT_MS: 1500,
    REQUEST_TIMEOUT_MS: 2500,
    STARTUP_TIMEOUT_MS: 5000,
    SHUTDOWN_DELAY_MS: 0,
    SHUTDOWN_TIMEOUT_MS: 7000,
    WRITE_DEADLINE_MS: 2000,
    WRITE_LANES: 4,
    WRITE_BATCH_ROWS: 64,
    WRITE_QUEUE_ROWS: 128,
    WRITE_QUEUE_BYTES: 8192
  }
  const env = {
    ...texts,
    ...Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, `${value}`])),
    DATABASE_URL: 'postgresql://db.test/other',
    AUTH_TOKENS: `shop:${secret}`
  }
  t.strictSame(read(env), {
    ...texts,
    ...numbers,
    metrics: { host: '::', port: 9000 },
    noticeMs: 2_500,
    write: {
      deadlineMs: 2000,
      lanes: 4,
      batchRows: 64,
      batchBytes: 1_048_576,
      queueRows: 128,
      queueBytes: 8192
    },
    database: parseDatabaseUrl('postgresql://db.test/other'),
    tokens: 'shop',
    databaseFile: undefined,
    tokenFile: undefined
  })
})

t.test('an empty string counts as unset', async (t) => {
  const names = [
    'HOST',
    'PORT',
    'DOCS',
    'METRICS_PORT',
    'BASE_PATH',
    'LOG_LEVEL',
    'BODY_LIMIT_BYTES',
    'STARTUP_TIMEOUT_MS'
  ]
  const files = ['DATABASE_URL_FILE', 'AUTH_TOKENS_FILE']
  const empty = Object.fromEntries([...names, ...files].map((name) => [name, '']))
  t.strictSame(read({ ...required, ...empty }), read(required))
  t.strictSame(faultsOf(readConfig, { DATABASE_URL: '', AUTH_TOKENS: '' }), [
    'DATABASE_URL is required',
    'AUTH_TOKENS is required'
  ])
})

t.test('values at their bounds are taken', async (t) => {
  t.equal(readConfig({ ...required, PORT: '0' }).PORT, 0)
  t.equal(readConfig({ ...required, PORT: '65535' }).PORT, 65_535)
  t.equal(readConfig({ ...required, METRICS_PORT: '0' }).metrics?.port, 0)
  t.equal(readConfig({ ...required, METRICS_PORT: '65535' }).metrics?.port, 65_535)
  t.equal(readConfig({ ...required, METRICS_PORT: 'off' }).metrics, undefined)
  t.equal(readConfig({ ...required, BODY_LIMIT_BYTES: '1' }).BODY_LIMIT_BYTES, 1)
  const large = {
    BODY_LIMIT_BYTES: '1073741824',
    WRITE_QUEUE_BYTES: '1073741888',
    BODY_MEMORY_BYTES: '1073741824'
  }
  t.equal(readConfig({ ...required, ...large }).BODY_LIMIT_BYTES, 1_073_741_824)
  t.equal(readConfig({ ...required, STARTUP_TIMEOUT_MS: '1' }).STARTUP_TIMEOUT_MS, 1)
  t.equal(readConfig({ ...required, STARTUP_TIMEOUT_MS: '2147483647' }).STARTUP_TIMEOUT_MS, 2_147_483_647)
  for (const level of ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']) {
    t.equal(readConfig({ ...required, LOG_LEVEL: level }).LOG_LEVEL, level)
  }
  for (const limit of ['0', '1000000']) {
    t.equal(readConfig({ ...required, RATE_LIMIT: limit }).RATE_LIMIT, Number(limit))
  }
  for (const path of ['/v1', '/a/b/c', '/~me/_x-1.2']) {
    t.equal(readConfig({ ...required, BASE_PATH: path }).BASE_PATH, path)
  }
})

t.test('HOST and METRICS_HOST take any IP address', async (t) => {
  for (const address of ['127.0.0.1', '0.0.0.0', '10.1.2.3', '::1', '::', '2001:db8::1', '::ffff:10.1.2.3']) {
    const { HOST: host, metrics } = readConfig({ ...required, HOST: address, METRICS_HOST: address })
    t.strictSame([host, metrics?.host], [address, address])
  }
})

t.test('a queue, or a memory for bodies, that could not hold the largest body is a fault', async (t) => {
  t.strictSame(faults({ BODY_MEMORY_BYTES: '1048575' }), [
    'BODY_MEMORY_BYTES must be at least BODY_LIMIT_BYTES (1048576)'
  ])
  t.strictSame(faults({ WRITE_QUEUE_BYTES: '1048639' }), [
    'WRITE_QUEUE_BYTES must be at least BODY_LIMIT_BYTES + 64 (1048640)'
  ])
  t.strictSame(faults({ WRITE_QUEUE_BYTES: '1048640' }), [])
})

t.test('a limit for the shutdown that is shorter than the slowest create is a fault', async (t) => {
  const cases: [longestMs: number, env: Environment][] = [
    [5_000 + 1_000 + 10_000 + 10_000 + 3_334, {}],
    [0 + 1_000 + 10_000 + 10_000 + 3_334, { SHUTDOWN_DELAY_MS: '0' }],
    [5_000 + 1_000 + 20_000 + 10_000 + 3_334, { HEADERS_TIMEOUT_MS: '20000' }],
    [5_000 + 1_000 + 10_000 + 60_000 + 20_000, { WRITE_DEADLINE_MS: '60000' }],
    [5_000 + 1_000 + 10_000 + 3_000 + 1_000, { WRITE_DEADLINE_MS: '3000' }],
    [5_000 + 1_000 + 10_000 + 300 + 1_000, { WRITE_DEADLINE_MS: '300' }]
  ]
  const rule =
    'SHUTDOWN_DELAY_MS + 1000 + HEADERS_TIMEOUT_MS + WRITE_DEADLINE_MS + max(WRITE_DEADLINE_MS / 3, 1000)'
  for (const [longestMs, env] of cases) {
    t.strictSame(faults({ ...env, SHUTDOWN_TIMEOUT_MS: String(longestMs - 1) }), [
      `SHUTDOWN_TIMEOUT_MS must be at least ${rule} (${longestMs})`
    ])
    t.strictSame(faults({ ...env, SHUTDOWN_TIMEOUT_MS: String(longestMs) }), [])
  }
})

const noAddress = ['localhost', 'plants.test', '127.1', '[::1]', ' ::1', '127.0.0.1:80', 'fe80::1%eth0']
const address =
  'must be an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several'

const bad: [name: string, values: string[], rule: string][] = [
  ['HOST', noAddress, address],
  ['METRICS_HOST', noAddress, address],
  ['PORT', ['-1', '65536', '80.5', '1e3', '0x50', 'http', ' 80'], 'must be an integer from 0 to 65535'],
  ['METRICS_PORT', ['-1', '65536', 'on', 'OFF', '1e3'], 'must be an integer from 0 to 65535, or off'],
  [
    'BASE_PATH',
    ['v1', '/', '/v1/', '//v1', '/a b', '/../v1', '/:id', '/*'],
    'must be empty or a path such as /v1, without a slash at its end'
  ],
  ['DOCS', ['true', 'ON', '0'], 'must be on or off'],
  ['LOG_LEVEL', ['verbose', 'INFO'], 'must be fatal, error, warn, info, debug, trace or silent'],
  ['RATE_LIMIT', ['-1', '1000001', '10/s', '0.5'], 'must be an integer from 0 to 1000000'],
  ['BODY_LIMIT_BYTES', ['0', '1073741825', '1mb'], 'must be an integer from 1 to 1073741824'],
  ['STARTUP_TIMEOUT_MS', ['0', '2147483648', '30s'], 'must be an integer from 1 to 2147483647']
]

for (const [name, values, rule] of bad) {
  t.test(`a bad ${name} is reported in one line, with its rule`, async (t) => {
    for (const value of values) t.strictSame(faults({ [name]: value }), [`${name} ${rule}`], value)
  })
}

t.test('a missing database and missing tokens are a line each', async (t) => {
  t.strictSame(faultsOf(readConfig, {}), ['DATABASE_URL is required', 'AUTH_TOKENS is required'])
  t.strictSame(faults({ DATABASE_URL: undefined }), ['DATABASE_URL is required'])
  t.strictSame(faults({ AUTH_TOKENS: undefined }), ['AUTH_TOKENS is required'])
})

t.test('several faults are reported at once, none with a secret or a password', async (t) => {
  const env = {
    PORT: 'x',
    BASE_PATH: 'v1',
    LOG_LEVEL: 'loud',
    BODY_LIMIT_BYTES: '0',
    STARTUP_TIMEOUT_MS: '0',
    DATABASE_URL: 'postgres://gardener:thyme@db.test/plants?sslmode=prefer',
    AUTH_TOKENS: `a:${secret},b:${secret},c:too-short,:${secret}`
  }
  t.strictSame(faultsOf(readConfig, env), [
    'PORT must be an integer from 0 to 65535',
    'BASE_PATH must be empty or a path such as /v1, without a slash at its end',
    'LOG_LEVEL must be fatal, error, warn, info, debug, trace or silent',
    'BODY_LIMIT_BYTES must be an integer from 1 to 1073741824',
    'STARTUP_TIMEOUT_MS must be an integer from 1 to 2147483647',
    'DATABASE_URL must set sslmode to one of disable, require, verify-ca, verify-full',
    'AUTH_TOKENS entry 2 repeats the secret of another name',
    'AUTH_TOKENS entry 3 must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end',
    'AUTH_TOKENS entry 4 has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
  ])
})

t.test("variables of libpq's that ask for TLS are refused: the URL has that", async (t) => {
  const line = (name: string) => `${name} is not read: unset it, and write what it asks for into DATABASE_URL`
  for (const name of ['PGSSLMODE', 'PGSSLROOTCERT', 'PGCHANNELBINDING', 'PGGSSENCMODE', 'PGREPLICATION']) {
    t.strictSame(faults({ [name]: 'require' }), [line(name)])
    t.strictSame(faults({ [name]: '' }), [])
    t.strictSame(faults({ [name]: 'disable' }), [])
    t.strictSame(faultsOf(readMigrationConfig, { ...required, [name]: 'require' }), [line(name)])
  }
  const owner = { MIGRATION_DATABASE_URL: 'postgres://plants_owner@db.test/plants', PGSSLMODE: 'require' }
  t.strictSame(faultsOf(readMigrationConfig, owner), [
    line('PGSSLMODE').replace('DATABASE', 'MIGRATION_DATABASE')
  ])
})

t.test('NAME_FILE names a file that holds the value, which is trimmed', async (t) => {
  const directory = t.testdir({ url: `\n ${required.DATABASE_URL} \n`, tokens: `${secret}\n` })
  const env = { DATABASE_URL_FILE: join(directory, 'url'), AUTH_TOKENS_FILE: join(directory, 'tokens') }
  t.strictSame(read(env), {
    ...read(required),
    databaseFile: { path: env.DATABASE_URL_FILE, digest: hash('sha256', required.DATABASE_URL) },
    tokenFile: { path: env.AUTH_TOKENS_FILE, digest: hash('sha256', secret) }
  })
})

t.test('NAME and NAME_FILE together are a fault', async (t) => {
  const directory = t.testdir({ url: required.DATABASE_URL, tokens: secret })
  t.strictSame(faults({ DATABASE_URL_FILE: join(directory, 'url') }), [
    'DATABASE_URL and DATABASE_URL_FILE must not both be set'
  ])
  t.strictSame(faults({ AUTH_TOKENS_FILE: join(directory, 'tokens') }), [
    'AUTH_TOKENS and AUTH_TOKENS_FILE must not both be set'
  ])
})

t.test('a NAME_FILE that cannot be read is the only fault of its value', async (t) => {
  const directory = t.testdir({})
  const env = { DATABASE_URL_FILE: join(directory, 'absent'), AUTH_TOKENS_FILE: directory }
  t.strictSame(faultsOf(readConfig, env), [
    'DATABASE_URL_FILE names a file that cannot be read (ENOENT)',
    'AUTH_TOKENS_FILE names a file that cannot be read (EISDIR)'
  ])
})

t.test('an empty NAME_FILE is a bad value, not a missing one', async (t) => {
  const path = join(t.testdir({ empty: '' }), 'empty')
  t.strictSame(faultsOf(readConfig, { DATABASE_URL_FILE: path, AUTH_TOKENS_FILE: path }), [
    'DATABASE_URL must be a URL such as postgres://user:password@host:5432/database',
    'AUTH_TOKENS must hold at least one token'
  ])
})

t.test('the migrations take MIGRATION_DATABASE_URL before DATABASE_URL, and no tokens', async (t) => {
  const owner = { MIGRATION_DATABASE_URL: 'postgres://plants_owner@db.test/plants' }
  const config = readMigrationConfig({ ...owner, ...required, AUTH_TOKENS: undefined })
  t.strictSame(config, { startupTimeoutMs: 30_000, database: parseDatabaseUrl(owner.MIGRATION_DATABASE_URL) })
  t.ok(Object.isFrozen(config))
  t.equal(readMigrationConfig(owner).database.user, 'plants_owner')
  t.equal(readMigrationConfig({ ...required, MIGRATION_DATABASE_URL: '' }).database.user, 'gardener')
  const file = { MIGRATION_DATABASE_URL_FILE: join(t.testdir({ url: owner.MIGRATION_DATABASE_URL }), 'url') }
  t.equal(readMigrationConfig({ ...required, ...file }).database.user, 'plants_owner')
  t.equal(readConfig({ ...owner, ...required }).database.user, 'gardener', 'the service does not take it')
})

t.test('bad settings of the migrations are one line each', async (t) => {
  t.strictSame(faultsOf(readMigrationConfig, {}), ['DATABASE_URL is required'])
  t.strictSame(faultsOf(readMigrationConfig, { ...required, STARTUP_TIMEOUT_MS: 'soon' }), [
    'STARTUP_TIMEOUT_MS must be an integer from 1 to 2147483647'
  ])
  t.strictSame(faultsOf(readMigrationConfig, { ...required, MIGRATION_DATABASE_URL: 'owner:thyme' }), [
    'MIGRATION_DATABASE_URL must be a URL such as postgres://user:password@host:5432/database'
  ])
  t.strictSame(
    faultsOf(readMigrationConfig, { MIGRATION_DATABASE_URL_FILE: join(t.testdir({}), 'absent') }),
    ['MIGRATION_DATABASE_URL_FILE names a file that cannot be read (ENOENT)']
  )
})
