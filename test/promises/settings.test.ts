/** The settings: each bad value, bad token, missing secret and unreadable file is a line, before anything is tried. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { migrateFile, serverFile } from '../support/process.ts'
import { type Env, hidden, refuses } from '../support/refusal.ts'
import { token } from '../support/service.ts'

const nowhere = `postgres://gardener:${hidden}@127.0.0.1:1/plants`
const service = {
  HOST: '127.0.0.1',
  PORT: '0',
  DATABASE_URL: nowhere,
  AUTH_TOKENS: `shop:${token}`
}

t.jobs = 4

const positive = 'an integer from 1 to 2147483647'
const unread = (name: string, url = 'DATABASE_URL') =>
  `${name} is not read: unset it, and write what it asks for into ${url}`

t.test('bad settings are a line each, all at once', async (t) => {
  const bad = {
    HOST: 'localhost',
    PORT: 'http',
    WRITE_DEADLINE_MS: '1s',
    PGSSLMODE: 'require',
    DOCS: 'off'
  }
  const says = [
    'HOST must be an IP address such as 127.0.0.1 or ::1',
    'PORT must be an integer from 0 to 65535',
    `WRITE_DEADLINE_MS must be ${positive}`,
    unread('PGSSLMODE')
  ]
  t.equal(await refuses(t, serverFile, { ...service, ...bad }, says), '')
})

const files = t.testdir({
  url: nowhere,
  empty: ' \n',
  directory: {},
  link: t.fixture('symlink', 'pipe')
})
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
    const fault = unread('PGSSLNEGOTIATION')
    await refuses(t, serverFile, { ...service, PGSSLNEGOTIATION: 'direct' }, [fault])
  }
)

t.test('bad settings of the migrations are a line each, and an argument is refused', async (t) => {
  const env = { MIGRATION_DATABASE_URL: hidden, PGSSLMODE: 'require', STARTUP_TIMEOUT_MS: 'soon' }
  await refuses(t, migrateFile, { ...service, ...env }, [
    `MIGRATION_DATABASE_URL ${badUrl}`,
    unread('PGSSLMODE', 'MIGRATION_DATABASE_URL'),
    `STARTUP_TIMEOUT_MS must be ${positive}`
  ])
  const pipe = { DATABASE_URL: '', MIGRATION_DATABASE_URL_FILE: file('pipe') }
  await refuses(t, migrateFile, { ...service, ...pipe }, [
    `MIGRATION_DATABASE_URL_FILE ${irregular}`
  ])
  await refuses(t, migrateFile, service, ['migrate takes no arguments'], ['down'])
})
