/** The settings: each bad value, bad token, missing secret and unreadable file is a line, before anything is tried. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { migrateFile, root, serverFile } from '../support/process.ts'
import { type Env, hidden, refuses } from '../support/refusal.ts'
import { token } from '../support/service.ts'

const nowhere = `postgres://gardener:${hidden}@127.0.0.1:1/plants`
const service = { HOST: '127.0.0.1', PORT: '0', DATABASE_URL: nowhere, AUTH_TOKENS: `shop:${token}` }

t.jobs = 4

const address = 'an IP address such as 127.0.0.1 or ::1'
const visible = 'up to 2000 visible ASCII characters'
const positive = 'an integer from 1 to 2147483647'

/** Each setting: values that are refused, its rule, and values that are taken. */
const settings: [name: string, refused: string[], rule: string, taken: string[]][] = [
  ['HOST', ['localhost', '127.1', '[::1]', '127.0.0.1:80'], address, ['', '::1', '10.1.2.3']],
  ['METRICS_HOST', ['plants.test', '999.1.1.1', 'fe80::1%eth0'], address, ['::', '2001:db8::1', '']],
  ['PORT', ['-1', '65536', '1e3', 'http'], 'an integer from 0 to 65535', ['0', '65535', '']],
  ['METRICS_PORT', ['on', '65536', 'OFF', '0x50'], 'an integer from 0 to 65535', ['65535', '0']],
  [
    'BASE_PATH',
    ['v1', '/v1/', '//v1', '/:id'],
    'empty or a path such as /v1, not /v1/',
    ['', '/v1', '/~me/_x-1.2']
  ],
  ['DOCS', ['true', 'ON', '0'], 'on or off', ['on', 'off', '']],
  ['AUTH_JWT_ISSUER', ['a b', 'blümchen'], visible, ['https://issuer.test', 'kubernetes/serviceaccount']],
  ['AUTH_JWT_AUDIENCE', ['a b', 'a'.repeat(2_001)], visible, ['plants', 'https://plants.test']],
  ['AUTH_JWT_CALLER', ['a b', '\t'], visible, ['', 'azp', 'https://plants.test/client']],
  [
    'AUTH_JWT_KEYS_URL',
    [
      'http://issuer.test/keys',
      'issuer.test',
      'file:///keys',
      'https://u:p@issuer.test/',
      'http://127.1.evil.test/'
    ],
    'an https URL (http only for this machine)',
    ['https://issuer.test/keys?p=a', 'http://127.0.0.1:1/', 'http://localhost/', 'http://[::1]:1/keys']
  ],
  ['LOG_LEVEL', ['verbose', 'INFO'], 'fatal, error, warn, info, debug, trace or silent', ['silent', 'trace']],
  ['RATE_LIMIT', ['-1', '1000001', '10/s', '0.5'], 'an integer from 0 to 1000000', ['0', '1000000']],
  ['BODY_LIMIT_BYTES', ['0', '268435457', '1mb', ' 1'], 'an integer from 1 to 268435456', ['1', '268435456']],
  ['MAX_CONNECTIONS', ['0', '1000001', 'all'], 'an integer from 1 to 1000000', ['1', '1000000']],
  ['REQUEST_TIMEOUT_MS', ['0', '2147483648', '1s'], positive, ['1', '2147483647']],
  ['STARTUP_TIMEOUT_MS', ['0', '2147483648', '30s'], positive, ['1', '2147483647']],
  ['SHUTDOWN_DELAY_MS', ['-1', '2147483648', '1s'], 'an integer from 0 to 2147483647', ['0', '5000']],
  ['WRITE_DEADLINE_MS', ['0', '2147483648', '1s'], positive, ['1', '10000']],
  ['WRITE_LANES', ['0', '1001', '1.5'], 'an integer from 1 to 1000', ['1', '1000']],
  ['WRITE_QUEUE_ROWS', ['0', '1000001', 'many'], 'an integer from 1 to 1000000', ['1', '1000000']],
  // libpq's variables that change how a session is opened: the URL has that.
  ...['PGSSLMODE', 'PGSSLROOTCERT', 'PGCHANNELBINDING', 'PGGSSENCMODE', 'PGREPLICATION', 'PGHOSTADDR'].map(
    (name): [string, string[], string, string[]] => [name, ['require', 'verify-full'], '', ['', 'disable']]
  )
]
const ruleOf = (name: string, rule: string) =>
  name.startsWith('PG')
    ? `${name} is not read: unset it, and write what it asks for into DATABASE_URL`
    : `${name} must be ${rule}`

/** The most values of one setting: each turn tries one of each, and two turns try them all, as bad ones and as good ones. */
const most = Math.max(...settings.flatMap(([, refused, , taken]) => [refused.length, taken.length]))

// A process reports all bad settings at once. In turns, every other one is bad, and the rest are good.
for (const turn of Array(2 * most).keys())
  t.test(`bad settings are a line each, and good ones none (${turn})`, async (t) => {
    const isBad = (index: number) => (index + turn) % 2 === 0
    const given = settings.map(([name, refused, , taken], index) => {
      const values = isBad(index) ? refused : taken
      return [name, values[(turn >> 1) % values.length]]
    })
    const faults = settings.flatMap(([name, , rule], index) => (isBad(index) ? ruleOf(name, rule) : []))
    t.equal(await refuses(t, serverFile, { ...service, ...Object.fromEntries(given) }, faults), '')
  })

t.test('the table has each setting', async (t) => {
  const config = readFileSync(join(root, 'src/config.ts'), 'utf8')
  const names = [...config.matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name)
  const inTable = settings.map(([name]) => name).filter((name) => !name.startsWith('PG'))
  t.strictSame(inTable.sort(), names.sort())
})

const files = t.testdir({ url: nowhere, empty: ' \n', directory: {}, link: t.fixture('symlink', 'pipe') })
const file = (name: string) => join(files, name)
execFileSync('mkfifo', [file('pipe')])
const socket = createServer().listen(file('socket'))
await once(socket, 'listening')
t.teardown(() => socket.close())
const irregular = 'must name a regular file, not a pipe, a socket, a directory or a device'
const badUrl = 'must be a URL such as postgres://user:password@host:5432/database'
const badKeys = 'must be a JWKS with a public key, such as {"keys":[{"kty":"RSA",…}]}'
const jwt = { AUTH_TOKENS: '', AUTH_JWT_ISSUER: 'https://issuer.test', AUTH_JWT_AUDIENCE: 'plants' }
const none = { DATABASE_URL: '', AUTH_TOKENS: '' }

/** Secrets, from variables and files, with which the service does not start. */
const secrets: [title: string, env: Env, faults: string[]][] = [
  ['no settings', none, ['DATABASE_URL is required', 'AUTH_TOKENS or AUTH_JWT_ISSUER is required']],
  [
    'an issuer alone, in clear text',
    { AUTH_JWT_ISSUER: 'http://issuer.test' },
    [
      'AUTH_JWT_AUDIENCE is required beside AUTH_JWT_ISSUER',
      'AUTH_JWT_ISSUER must be an https URL, unless AUTH_JWT_KEYS_URL or _FILE is set'
    ]
  ],
  [
    'keys without an issuer, twice, and neither good',
    { AUTH_JWT_KEYS_FILE: file('empty'), AUTH_JWT_KEYS_URL: 'https://issuer.test/' },
    [
      'AUTH_JWT_ISSUER is required beside the other settings AUTH_JWT_…',
      'AUTH_JWT_AUDIENCE is required beside AUTH_JWT_ISSUER',
      'AUTH_JWT_KEYS_URL and AUTH_JWT_KEYS must not both be set',
      `AUTH_JWT_KEYS_FILE ${badKeys}`
    ]
  ],
  [
    'keys that are none',
    { ...jwt, AUTH_JWT_KEYS: '{"keys":[{"kty":"oct","k":"thyme"}]}' },
    [`AUTH_JWT_KEYS ${badKeys}`]
  ],
  [
    'a private key',
    { ...jwt, AUTH_JWT_KEYS: '{"keys":[{"kty":"EC","d":"thyme"}]}' },
    [`AUTH_JWT_KEYS ${badKeys}`]
  ],
  [
    'a URL that is none, and bad tokens',
    { DATABASE_URL: hidden, AUTH_TOKENS: `a:${token},b:${token},sha256:${token}` },
    [
      `DATABASE_URL ${badUrl}`,
      'AUTH_TOKENS entry 2 repeats the secret of another name',
      'AUTH_TOKENS entry 3 has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
    ]
  ],
  [
    'a parameter of a URL that is not honoured',
    { DATABASE_URL: `${nowhere}?sslMode=require` },
    ['DATABASE_URL has the unknown parameter sslMode; docs/configuration.md lists the known ones']
  ],
  [
    'DATABASE_URL beside its file, and a file that is a directory',
    { DATABASE_URL_FILE: file('url'), AUTH_TOKENS: '', AUTH_TOKENS_FILE: file('directory') },
    ['DATABASE_URL_FILE and DATABASE_URL must not both be set', `AUTH_TOKENS_FILE ${irregular}`]
  ],
  [
    'pipes, to which a link leads, too',
    { ...none, DATABASE_URL_FILE: file('pipe'), AUTH_TOKENS_FILE: file('link') },
    [`DATABASE_URL_FILE ${irregular}`, `AUTH_TOKENS_FILE ${irregular}`]
  ],
  [
    'a socket, and a device',
    { ...none, DATABASE_URL_FILE: file('socket'), AUTH_TOKENS_FILE: '/dev/null' },
    [`DATABASE_URL_FILE ${irregular}`, `AUTH_TOKENS_FILE ${irregular}`]
  ],
  [
    // The tests give a process /dev/null as its standard input.
    'standard input, and a device without an end',
    { ...none, DATABASE_URL_FILE: '/dev/stdin', AUTH_TOKENS_FILE: '/dev/zero' },
    [`DATABASE_URL_FILE ${irregular}`, `AUTH_TOKENS_FILE ${irregular}`]
  ],
  [
    'a file that is not there, and an empty one',
    { ...none, DATABASE_URL_FILE: file('absent'), AUTH_TOKENS_FILE: file('empty') },
    [
      'DATABASE_URL_FILE names a file that cannot be read (ENOENT)',
      'AUTH_TOKENS_FILE must hold at least one token'
    ]
  ]
]
for (const [title, env, faults] of secrets)
  t.test(`${title}: the service does not start`, async (t) => {
    t.equal(await refuses(t, serverFile, { ...service, ...env }, faults), '')
  })

t.test('a variable by which the driver would be another one is a fault', async (t) => {
  const faults = ['NODE_PG_FORCE_NATIVE is not read: unset it']
  await refuses(t, serverFile, { ...service, NODE_PG_FORCE_NATIVE: '1' }, faults)
  await refuses(t, migrateFile, { ...service, NODE_PG_FORCE_NATIVE: 'true' }, faults)
})

t.test(
  "libpq's PGHOST and PGPORT beside a URL have no effect, and PGSSLNEGOTIATION is a fault",
  async (t) => {
    const briefly = { ...service, STARTUP_TIMEOUT_MS: '1', PGHOST: 'elsewhere.test', PGPORT: '7' }
    await refuses(t, serverFile, briefly, [
      'the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1'
    ])
    const fault = ruleOf('PGSSLNEGOTIATION', '')
    await refuses(t, serverFile, { ...service, PGSSLNEGOTIATION: 'direct' }, [fault])
  }
)

t.test('bad settings of the migrations are a line each, and an argument is refused', async (t) => {
  const env = { MIGRATION_DATABASE_URL: hidden, PGSSLMODE: 'require', STARTUP_TIMEOUT_MS: 'soon' }
  await refuses(t, migrateFile, { ...service, ...env }, [
    `MIGRATION_DATABASE_URL ${badUrl}`,
    ruleOf('PGSSLMODE', '').replace('DATABASE', 'MIGRATION_DATABASE'),
    `STARTUP_TIMEOUT_MS must be ${positive}`
  ])
  const pipe = { DATABASE_URL: '', MIGRATION_DATABASE_URL_FILE: file('pipe') }
  await refuses(t, migrateFile, { ...service, ...pipe }, [`MIGRATION_DATABASE_URL_FILE ${irregular}`])
  await refuses(t, migrateFile, service, ['migrate takes no arguments'], ['down'])
})
