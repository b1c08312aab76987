/** TLS to PostgreSQL: what each sslmode of a database URL accepts, on a server with a certificate for localhost. */
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import pg from 'pg'
import t from 'tap'
import { listen } from '../../harness/http/listen.ts'
import { createAuthority, createCertificate } from '../../harness/postgres/certificates.ts'
import { startPostgres } from '../../harness/postgres/embedded-postgres.ts'
import { query as run } from '../../harness/postgres/query.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { buildApp } from '../../src/app.ts'
import { migrate } from '../../src/commands/migrations.ts'
import { readConfig, readMigrationConfig } from '../../src/config/config.ts'
import { cancelStatement } from '../../src/database/cancel.ts'
import { openSession } from '../../src/database/hosts.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { waitForDatabase } from '../../src/database/wait-for-database.ts'
import { createLogger } from '../../src/logger.ts'
import { openPool } from './pool.ts'
import { startTlsProxy, withoutBinding } from './tls-proxy.ts'

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
  settings: {
    ssl: 'on',
    ssl_cert_file: file('server.pem'),
    ssl_key_file: file('server.key'),
    ssl_ca_file: right.path,
    fsync: 'off'
  }
})
t.teardown(() => server.stop())

/** The database URL by this host name, with this query. */
function urlOf(host: string, query: string): string {
  const url = new URL(server.url('postgres'))
  url.hostname = host
  url.search = query
  return url.href
}

const limits = { connectionTimeoutMillis: scaled(30_000) }

/** Returns what the server says of the connection's encryption. */
async function readStatus(url: string): Promise<{ ssl: boolean; client_dn: string | null }> {
  const client = await openSession(parseDatabaseUrl(url), limits)
  try {
    return (await client.query('select ssl, client_dn from pg_stat_ssl where pid = pg_backend_pid()')).rows[0]
  } finally {
    await client.end()
  }
}

/** Returns whether the server calls the connection encrypted. */
const isEncrypted = async (url: string) => (await readStatus(url)).ssl

/** Modes, with the authority that they are given. */
const [ofRight, ofWrong] = [right, wrong].map(({ path }) => `&sslrootcert=${path}`)
const encrypted: [what: string, host: string, mode: string][] = [
  ['verify-full with the right authority and host name', 'localhost', `verify-full${ofRight}`],
  ['verify-ca with the right authority and another host name', '127.0.0.1', `verify-ca${ofRight}`],
  ['require with the right authority and another host name', '127.0.0.1', `require${ofRight}`],
  ['require without an authority', '127.0.0.1', 'require']
]
for (const [what, host, mode] of encrypted)
  t.test(`${what} is encrypted`, async (t) => {
    t.equal(await isEncrypted(urlOf(host, `sslmode=${mode}`)), true)
  })

for (const query of ['', 'sslmode=disable'])
  t.test(`${query || 'no sslmode'} is not encrypted`, async (t) => {
    t.equal(await isEncrypted(urlOf('localhost', query)), false)
  })

const unsigned = (by: string) => ({ message: `the server has a certificate that no ${by}` })
const byNone = unsigned('authority of sslrootcert has signed')
const byNobody = unsigned('public authority has signed: name its own by sslrootcert')
const anotherName = { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }
const refused: [what: string, host: string, mode: string, error: object][] = [
  ['verify-full with another authority', 'localhost', `verify-full${ofWrong}`, byNone],
  ['verify-full with only the public authorities', 'localhost', 'verify-full', byNobody],
  ['verify-full with another host name', '127.0.0.1', `verify-full${ofRight}`, anotherName],
  ['verify-ca with another authority', 'localhost', `verify-ca${ofWrong}`, byNone],
  ['require with another authority', 'localhost', `require${ofWrong}`, byNone]
]
for (const [what, host, mode, error] of refused)
  t.test(`${what} does not connect`, async (t) => {
    await t.rejects(isEncrypted(urlOf(host, `sslmode=${mode}`)), error as { code: string })
  })

t.test("sslcert and sslkey are the service's own certificate", async (t) => {
  const own = createCertificate('service', right.authority)
  await writeFile(file('own.pem'), own.cert)
  await writeFile(file('own.key'), own.key)
  const query = `sslrootcert=${right.path}&sslcert=${file('own.pem')}&sslkey=${file('own.key')}`
  t.strictSame(await readStatus(urlOf('localhost', query)), { ssl: true, client_dn: '/CN=service' })
})

const serverPort = Number(new URL(server.url('postgres')).port)

/** The same URL, through another port. */
function through(port: number, url: string): string {
  const other = new URL(url)
  other.port = String(port)
  return other.href
}

const unbound = { message: 'the server does not offer the channel binding that the URL requires' }

t.test('channel_binding=require accepts the server, and no man in the middle', async (t) => {
  const url = (binding: string) => urlOf('127.0.0.1', `sslmode=require&channel_binding=${binding}`)
  t.equal(await isEncrypted(url('require')), true)
  const man = await startTlsProxy(
    t,
    createCertificate('localhost', wrong.authority),
    serverPort,
    withoutBinding
  )
  t.equal(await isEncrypted(through(man.port, url('disable'))), true, 'without it, he is not noticed')
  t.match(man.read(), 'pg_stat_ssl')
  const before = man.read().length
  await t.rejects(isEncrypted(through(man.port, url('require'))), unbound)
  const told = man
    .read()
    .slice(before)
    .split('\0')
    .filter((text) => text.length > 1)
  t.equal(told.join(), 'user,postgres,database,postgres,application_name,plant-store,client_encoding,UTF8')
  const passing = await startTlsProxy(t, createCertificate('localhost', wrong.authority), serverPort)
  for (const binding of ['prefer', 'require'])
    await t.rejects(
      isEncrypted(through(passing.port, url(binding))),
      { code: '28000' },
      'the server notices him'
    )
})

/** AuthenticationCleartextPassword, AuthenticationMD5Password, and AuthenticationOk with ReadyForQuery. */
const demands = ['520000000800000003', '520000000c0000000501020304', '5200000008000000005a0000000549']
for (const demand of demands)
  t.test(`channel_binding=require gives nothing to a server that answers ${demand}`, async (t) => {
    const man = await startTlsProxy(t, certificate, serverPort, () => Buffer.from(demand, 'hex'))
    const url = through(man.port, urlOf('127.0.0.1', 'sslmode=require&channel_binding=require'))
    await t.rejects(isEncrypted(url), unbound)
    t.notMatch(man.read(), 'pg_stat_ssl')
    t.notMatch(man.read(), new URL(url).password)
  })

t.test('a statement is cancelled over TLS, to a server that accepts nothing else', async (t) => {
  for (const [host, query] of [
    ['localhost', `sslmode=verify-full&sslrootcert=${right.path}`],
    ['127.0.0.1', 'sslmode=require']
  ] as const) {
    const proxy = await startTlsProxy(t, certificate, serverPort)
    const pool = openPool(t, parseDatabaseUrl(through(proxy.port, urlOf(host, query))))
    await pool.query({ text: 'select 1' })
    const controller = new AbortController()
    const sleeping = pool.query({ text: 'select pg_sleep(60)' }, controller.signal)
    await until(
      'it runs',
      () => run(server.url('postgres'), `select 1 from pg_stat_activity where query = 'select pg_sleep(60)'`),
      hasLength(1)
    )
    controller.abort()
    await t.rejects(sleeping, { code: '57014' })
    t.strictSame(proxy.inClear, [])
  }
})

t.test('a cancel request tells nothing to a server without TLS, or with another certificate', async (t) => {
  const cancel = (url: string) =>
    cancelStatement({ ...parseDatabaseUrl(url), processID: 1, secretKey: 2, connection: {} } as never)
  const withoutTls = Promise.withResolvers<string>()
  const address = await listen(t, (socket) => {
    const chunks: Buffer[] = []
    socket.on('data', (chunk) => void chunks.push(chunk))
    socket.once('data', () => socket.write('N'))
    socket.once('close', () => withoutTls.resolve(Buffer.concat(chunks).toString('hex')))
  })
  cancel(`${address}?sslmode=require`)
  t.equal(await withoutTls.promise, '0000000804d2162f')
  const man = await startTlsProxy(t, createCertificate('localhost', wrong.authority), serverPort)
  const closed = new Promise<void>((resolve) => man.onceClosed(resolve))
  cancel(through(man.port, urlOf('localhost', `sslmode=verify-full&sslrootcert=${right.path}`)))
  await closed
  t.equal(man.read(), '')
})

t.test('verify-full checks each of several hosts by its own name', async (t) => {
  const { port } = new URL(server.url('postgres'))
  const urlOfBoth = (hosts: string[]) =>
    urlOf('localhost', `sslmode=verify-full&sslrootcert=${right.path}`).replace(
      `localhost:${port}`,
      hosts.map((host) => `${host}:${port}`).join(',')
    )
  const waitFor = (...hosts: string[]) =>
    waitForDatabase(() => parseDatabaseUrl(urlOfBoth(hosts)), scaled(10_000), [])
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
  // A create that takes long has a probe beside it.
  t.ok(rows.length > 0 && rows.every(({ ssl }) => ssl))
})
