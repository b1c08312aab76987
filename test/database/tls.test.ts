/** TLS to PostgreSQL: what each sslmode of a database URL accepts, on a server with a certificate for localhost. */
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import pg from 'pg'
import t from 'tap'
import { startPostgres } from '../../dev/embedded-postgres.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig, readMigrationConfig } from '../../src/config/config.ts'
import { migrate } from '../../src/database/migrate.ts'
import { waitForDatabase } from '../../src/database/readiness.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { createLogger } from '../../src/logger.ts'
import { createAuthority, createCertificate } from '../support/certificates.ts'

const directory = await mkdtemp(join(tmpdir(), 'plant-store-tls-'))
t.teardown(() => rm(directory, { recursive: true, force: true }))
const file = (name: string) => join(directory, name)

/** Makes a certificate authority, and writes its certificate to a file. */
async function writeAuthority(name: string) {
  const authority = createAuthority(name)
  await writeFile(file(`${name}.pem`), authority.cert)
  return { authority, path: file(`${name}.pem`) }
}

const right = await writeAuthority('right')
const wrong = await writeAuthority('wrong')
const certificate = createCertificate('localhost', right.authority)
await writeFile(file('server.pem'), certificate.cert)
await writeFile(file('server.key'), certificate.key, { mode: 0o600 })
// PostgreSQL refuses a key of another user; for root, startPostgres runs it as nobody.
if (process.getuid?.() === 0) await chown(file('server.key'), 65_534, 65_534)

const server = await startPostgres({
  directory,
  settings: { ssl: 'on', ssl_cert_file: file('server.pem'), ssl_key_file: file('server.key'), fsync: 'off' }
})
t.teardown(() => server.stop())

/** The database URL by this host name, with this query. */
function urlOf(host: string, query: string): string {
  const url = new URL(server.url('postgres'))
  url.hostname = host
  url.search = query
  return url.href
}

/** Returns whether the server calls the connection encrypted. */
async function isEncrypted(url: string): Promise<boolean> {
  const client = new pg.Client(parseDatabaseUrl(url))
  await client.connect()
  try {
    const { rows } = await client.query('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
    return rows[0].ssl
  } finally {
    await client.end()
  }
}

const encrypted: [what: string, host: string, query: string][] = [
  [
    'verify-full with the right authority and host name',
    'localhost',
    `sslmode=verify-full&sslrootcert=${right.path}`
  ],
  [
    'verify-ca with the right authority and another host name',
    '127.0.0.1',
    `sslmode=verify-ca&sslrootcert=${right.path}`
  ],
  [
    'require with the right authority and another host name',
    '127.0.0.1',
    `sslmode=require&sslrootcert=${right.path}`
  ],
  ['require without an authority', '127.0.0.1', 'sslmode=require']
]

for (const [what, host, query] of encrypted) {
  t.test(`${what} is encrypted`, async (t) => {
    t.equal(await isEncrypted(urlOf(host, query)), true)
  })
}

for (const query of ['', 'sslmode=disable']) {
  t.test(`${query || 'no sslmode'} is not encrypted`, async (t) => {
    t.equal(await isEncrypted(urlOf('localhost', query)), false)
  })
}

const unknownIssuer = { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }
const refused: [what: string, host: string, query: string, error: { code: string }][] = [
  [
    'verify-full with another authority',
    'localhost',
    `sslmode=verify-full&sslrootcert=${wrong.path}`,
    unknownIssuer
  ],
  ['verify-full with only the public authorities', 'localhost', 'sslmode=verify-full', unknownIssuer],
  [
    'verify-full with another host name',
    '127.0.0.1',
    `sslmode=verify-full&sslrootcert=${right.path}`,
    { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }
  ],
  [
    'verify-ca with another authority',
    'localhost',
    `sslmode=verify-ca&sslrootcert=${wrong.path}`,
    unknownIssuer
  ],
  ['require with another authority', 'localhost', `sslmode=require&sslrootcert=${wrong.path}`, unknownIssuer]
]

for (const [what, host, query, error] of refused) {
  t.test(`${what} does not connect`, async (t) => {
    await t.rejects(isEncrypted(urlOf(host, query)), error)
  })
}

t.test('verify-full checks each of several hosts by its own name', async (t) => {
  const { port } = new URL(server.url('postgres'))
  const urlOfBoth = (hosts: string[]) =>
    urlOf('localhost', `sslmode=verify-full&sslrootcert=${right.path}`).replace(
      `localhost:${port}`,
      hosts.map((host) => `${host}:${port}`).join(',')
    )
  const waitFor = (...hosts: string[]) =>
    waitForDatabase(() => parseDatabaseUrl(urlOfBoth(hosts)), 10_000, [])
  t.equal(await waitFor('127.0.0.1', 'localhost'), undefined)
  await t.rejects(waitFor('127.0.0.1', '127.0.0.1'), /certificate's altnames/)
})

t.test('a plant is created over verify-full', async (t) => {
  const secret = 'a-secret-of-the-tests'
  const env = {
    DATABASE_URL: urlOf('localhost', `sslmode=verify-full&sslrootcert=${right.path}`),
    AUTH_TOKENS: secret
  }
  await migrate(readMigrationConfig(env), 'up')
  const app = await buildApp(readConfig(env), createLogger('silent', new Writable()))
  t.teardown(() => app.close())
  const response = await app.inject({
    method: 'POST',
    url: '/plants',
    headers: { authorization: `Bearer ${secret}` },
    payload: { id: 1, name: 'Monstera' }
  })
  t.equal(response.statusCode, 200)
  t.strictSame(response.json(), { name: 'Monstera' })
  const client = new pg.Client(server.url('postgres'))
  await client.connect()
  const { rows } = await client.query(
    "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'plant-store'"
  )
  await client.end()
  t.strictSame(rows, [{ ssl: true }])
})
