/** The processes: when the service and the migrations refuse to start, and how they run and end. */
import { execFileSync, spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { listen } from '../harness/http/listen.ts'
import { exchange, parseResponses, request } from '../harness/http/raw.ts'
import { createDatabase, query } from '../harness/postgres/database.ts'
import { freePort } from '../harness/postgres/embedded-postgres.ts'
import { covered, run, start, startProcess } from '../harness/service/process.ts'
import { scaled } from '../harness/time/slowness.ts'
import { until } from '../harness/time/until.ts'

const secret = 'a-secret-of-the-tests'
const settings = { HOST: '127.0.0.1', PORT: '0', AUTH_TOKENS: `shop:${secret}` }
/** Long enough for a first try under load, short enough to wait for. */
const soonMs = scaled(4_000)
/** By name, as they are applied. */
const allMigrations = readdirSync(join(import.meta.dirname, '../migrations'))
  .map((file) => file.replace('.sql', ''))
  .sort()

/** The whole end of a process that refuses to start. */
const refusal = (...lines: string[]) => ({
  code: 1,
  stdout: '',
  stderr: lines.map((line) => `plant-store: ${line}\n`).join('')
})

/** What a process that waits for its database says of it meanwhile: it repeats itself every minute. */
function waitsFor(stdout: string) {
  const lines = stdout.split('\n').filter((line) => line.includes('waiting for the database'))
  return [...new Set(lines.map((line) => JSON.parse(line).missing))]
}

t.jobs = 4

const unreachable = 'postgres://gardener:thyme@127.0.0.1:1/plants'
const names = 'must be an IP address such as 127.0.0.1 or ::1; a name such as localhost can stand for several'
const database = { DATABASE_URL: unreachable }

type Variables = Record<string, string>
/** Settings with which the service does not start, and what it says then; one that waits for its database says it meanwhile. */
const refused: [title: string, env: Variables | ((t: Test) => Promise<Variables>), faults: string[]][] = [
  ['without settings', {}, ['DATABASE_URL is required', 'AUTH_TOKENS is required']],
  [
    'with bad values',
    { ...settings, PORT: 'http', DATABASE_URL: 'thyme', AUTH_TOKENS: 'a:too-short' },
    [
      'PORT must be an integer from 0 to 65535',
      'DATABASE_URL must be a URL such as postgres://user:password@host:5432/database',
      'AUTH_TOKENS entry 1 must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'
    ]
  ],
  [
    'on a name, which can stand for several addresses',
    { ...settings, ...database, HOST: 'localhost', METRICS_HOST: 'localhost' },
    [`HOST ${names}`, `METRICS_HOST ${names}`]
  ]
]
const givesUp: typeof refused = [
  ['is unreachable', database, ['the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1']],
  [
    'accepts the connection and never responds',
    async (t) => ({ DATABASE_URL: await listen(t, () => {}) }),
    ['the database cannot be reached: timeout expired']
  ],
  [
    'is not migrated',
    async (t) => ({ DATABASE_URL: await createDatabase(t, { migrated: false }) }),
    ['the database is not migrated: run the migrations first']
  ]
]

for (const [title, env, faults] of refused)
  t.test(`the service does not start ${title}, and shows no secret`, async (t) => {
    t.strictSame(await run(t, ['src/server.ts'], env as Variables), refusal(...faults))
  })

for (const [title, env, faults] of givesUp)
  t.test(`the service gives up after STARTUP_TIMEOUT_MS on a database that ${title}`, async (t) => {
    const own = typeof env === 'function' ? await env(t) : env
    const began = performance.now()
    const end = await run(t, ['src/server.ts'], { ...settings, ...own, STARTUP_TIMEOUT_MS: String(soonMs) })
    const took = performance.now() - began
    t.strictSame({ ...end, stdout: '' }, refusal(...faults))
    // A try that never ends has nothing to tell before.
    const told = faults.filter((fault) => !fault.endsWith('timeout expired'))
    t.strictSame(waitsFor(end.stdout), told)
    t.notMatch(end.stdout, 'thyme')
    t.ok(took > 0.875 * soonMs && took < scaled(90_000), `after ${took} ms`)
  })

t.test('neither process accepts a database whose encoding is not UTF8', async (t) => {
  const url = await createDatabase(t, { migrated: false, encoding: 'SQL_ASCII' })
  const fault = refusal("the database's encoding must be UTF8; it is SQL_ASCII")
  t.strictSame(await run(t, ['src/server.ts'], { ...settings, DATABASE_URL: url }), fault)
  t.strictSame(await run(t, ['src/commands/migrate.ts'], { DATABASE_URL: url }), fault)
})

t.test('both processes say that they reach another machine in clear text, unless asked to', async (t) => {
  const exposed = 'postgres://gardener:thyme@db.invalid/plants'
  const env = { ...settings, ...covered, STARTUP_TIMEOUT_MS: '1' }
  const warning =
    /"level":40.*"host":"db.invalid","msg":"connections to the database are not encrypted: add an sslmode/
  t.match((await run(t, ['src/server.ts'], { ...env, DATABASE_URL: exposed })).stdout, warning)
  const line = 'plant-store: the connection to db.invalid is not encrypted: add an sslmode to the URL'
  t.match((await run(t, ['src/commands/migrate.ts'], { ...env, DATABASE_URL: exposed })).stderr, line)
  for (const query of ['sslmode=disable', 'sslmode=require']) {
    const asked = { ...env, DATABASE_URL: `${exposed}?${query}` }
    t.notMatch((await run(t, ['src/server.ts'], asked)).stdout, 'not encrypted')
    t.notMatch((await run(t, ['src/commands/migrate.ts'], asked)).stderr, 'not encrypted')
  }
})

t.test('the service says at the start that it may open fewer files than MAX_CONNECTIONS needs', async (t) => {
  const env = { ...settings, ...covered, ...database, STARTUP_TIMEOUT_MS: '1' }
  const startWith = async (MAX_CONNECTIONS: string) =>
    (await run(t, ['src/server.ts'], { ...env, MAX_CONNECTIONS })).stdout
  const limit = Number(execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })) || 2 ** 30
  const most = Math.min(limit - 1_100, 1_000_000)
  t.notMatch(await startWith(String(most)), 'too few open files')
  if (most < 1_000_000)
    t.match(
      await startWith(String(most + 1)),
      `"limit":${limit},"needed":${limit + 1},"msg":"too few open files for MAX_CONNECTIONS: raise ulimit -n or LimitNOFILE"`
    )
})

t.test('the service does not start on an address that is taken', async (t) => {
  const taken = new URL(await listen(t, () => {}))
  const env = { ...settings, ...covered, DATABASE_URL: await createDatabase(t) }
  const fault = refusal(`Error: listen EADDRINUSE: address already in use 127.0.0.1:${taken.port}`)
  for (const METRICS_PORT of ['off', '0']) {
    const end = await run(t, ['src/server.ts'], { ...env, PORT: taken.port, METRICS_PORT })
    t.strictSame({ ...end, stdout: '' }, fault)
  }
  t.strictSame(await run(t, ['src/server.ts'], { ...env, METRICS_PORT: taken.port }), fault)
})

const hasIPv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1')
)

const skip = !hasIPv6 && 'this machine has no IPv6'
t.test('HOST and METRICS_HOST of :: keep the contract on IPv4 and on IPv6', { skip }, async (t) => {
  const env = { ...settings, DATABASE_URL: await createDatabase(t), HOST: '::', METRICS_HOST: '::' }
  const { output } = start(t, ['src/server.ts'], env)
  for (const line of [/Server listening at http:.*?:(\d+)"/, /Metrics at http:.*?:(\d+)\/metrics"/]) {
    const [, port] = await output(line)
    for (const address of ['127.0.0.1', '[::1]']) {
      const bytes = await exchange(`http://${address}:${port}`, ['CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n'])
      const bodies = parseResponses(bytes).map(({ status, body }) => `${status} ${body}`)
      t.strictSame(bodies, ['400 {"error":405,"message":"this path does not support this method"}'])
    }
  }
})

t.test('the service waits for the migrations, responds, logs a line, ends on SIGTERM', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const env = { ...covered, DATABASE_URL: url }
  const service = start(t, ['src/server.ts'], { ...settings, ...env, SHUTDOWN_DELAY_MS: '0' })
  const migrations = await run(t, ['src/commands/migrate.ts'], env)
  t.strictSame(migrations, { code: 0, stdout: `migrated: ${allMigrations.join(', ')}\n`, stderr: '' })

  const [, address] = await service.output(/Server listening at (http:[^"]+)/)
  const response = await fetch(`${address}/plants`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: '{"id":1,"name":"Monstera","tag":"tropical"}'
  })
  t.equal(response.status, 200)
  t.strictSame(await response.json(), { name: 'Monstera', tag: 'tropical' })
  t.strictSame(await query(url, 'select id, name, tag from plants'), [
    { id: '1', name: 'Monstera', tag: 'tropical' }
  ])

  await service.output(/"created"/)
  service.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  t.equal(code, 0)
  t.equal(stderr, '')
  t.notMatch(stdout, secret)
  t.notMatch(stdout, 'Monstera')
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const requests = lines.filter((line) => 'requestId' in line)
  t.equal(requests.length, 1)
  const { time, requestId, durationMs, ...line } = requests[0]
  t.strictSame(line, {
    level: 30,
    method: 'POST',
    route: '/plants',
    caller: 'shop',
    failure: 0,
    batchRows: 1,
    client: '127.0.0.1',
    msg: 'created'
  })
  t.ok(Math.abs(Date.now() - time) < scaled(60_000))
  t.match(requestId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  t.ok(durationMs > 0 && durationMs < scaled(60_000))
})

t.test('the migrations run once, and a developer can revert each', async (t) => {
  const DATABASE_URL = await createDatabase(t, { migrated: false })
  const command = (file: string) => run(t, [file], { ...covered, DATABASE_URL })
  const done = (stdout: string) => ({ code: 0, stdout, stderr: '' })
  const migrate = () => command('src/commands/migrate.ts')
  t.strictSame(await migrate(), done(`migrated: ${allMigrations.join(', ')}\n`))
  t.strictSame(await migrate(), done('nothing to migrate\n'))
  for (const name of allMigrations.toReversed())
    t.strictSame(await command('dev/migrate-down.ts'), done(`reverted: ${name}\n`))
  t.strictSame(await query(DATABASE_URL, "select to_regclass('plants') as plants"), [{ plants: null }])
})

t.test('the migrations say what they wait for', async (t) => {
  const env = {
    ...covered,
    DATABASE_URL: 'postgres://gardener:thyme@127.0.0.1:1/plants',
    STARTUP_TIMEOUT_MS: String(soonMs)
  }
  const cause = 'the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1'
  const { code, stdout, stderr } = await run(t, ['src/commands/migrate.ts'], env)
  const lines = [...new Set(stderr.match(/.*\n/g))].join('')
  t.strictSame({ code, stdout, stderr: lines }, refusal(`waiting: ${cause}`, cause))
})

t.test('the migrations refuse an argument, and a missing database', async (t) => {
  t.strictSame(
    await run(t, ['src/commands/migrate.ts', 'down'], covered),
    refusal('migrate takes no arguments')
  )
  t.strictSame(await run(t, ['src/commands/migrate.ts']), refusal('DATABASE_URL is required'))
})

t.test('on SIGHUP the service reads its tokens again, good or broken, and continues', async (t) => {
  const path = join(t.testdir({ tokens: `shop:${secret}` }), 'tokens')
  const env = { ...settings, ...covered, AUTH_TOKENS: '', AUTH_TOKENS_FILE: path }
  const service = start(t, ['src/server.ts'], { ...env, DATABASE_URL: await createDatabase(t) })
  const [, address] = await service.output(/Server listening at (http:[^"]+)/)
  const errorOf = async (token: string) => {
    const response = await fetch(`${address}/plants`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: ''
    })
    return ((await response.json()) as { error: number }).error
  }
  t.equal(await errorOf(secret), 400)
  t.equal(await errorOf(`${secret}-2`), 401)

  await writeFile(path, `shop:${secret}-2,shop:${secret}-3`)
  service.kill('SIGHUP')
  await service.output(/"tokens":2,"msg":"AUTH_TOKENS_FILE was read"/)
  t.equal(await errorOf(secret), 401)
  t.equal(await errorOf(`${secret}-2`), 400)

  await writeFile(path, 'shop:')
  service.kill('SIGHUP')
  await service.output(/"msg":"AUTH_TOKENS_FILE is broken; keeping the earlier text"/)
  t.equal(await errorOf(`${secret}-2`), 400)

  service.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
  t.notMatch(stdout, secret)
})

t.test('SIGHUP without a file of tokens is logged, and the service continues', async (t) => {
  const service = start(t, ['src/server.ts'], { ...settings, DATABASE_URL: await createDatabase(t) })
  const [, address] = await service.output(/Server listening at (http:[^"]+)/)
  for (const times of [1, 2]) {
    service.kill('SIGHUP')
    await service.output(new RegExp(`(AUTH_TOKENS_FILE is not set; nothing to reload[^]*){${times}}`))
  }
  t.equal((await fetch(`${address}/plants`)).status, 400)
  service.kill('SIGTERM')
  const { code, stdout } = await service.ended
  t.equal(code, 0)
  t.match(stdout, /"failure":405/, 'what was logged last is written')
})

/** Connections that wait to be accepted: above Node's own limit, and below what kernels allow by default. */
const waiting = 1_000
const kernelLimit = '/proc/sys/net/core/somaxconn'
const isTooFew = !existsSync(kernelLimit) || Number(readFileSync(kernelLimit, 'utf8')) < waiting
const tooFew = { skip: isTooFew && `${kernelLimit} is below ${waiting}` }

t.test('clients that connect while the process is stopped lose nothing', tooFew, async (t) => {
  const service = await startProcess(t, { DATABASE_URL: await createDatabase(t) })
  service.kill('SIGSTOP')
  let connected = 0
  const responses = Array.from({ length: waiting }, async () => {
    const accepted = async () => void connected++
    return exchange(service.url, [accepted, 'GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'])
  })
  await until('all are connected', () => connected === waiting)
  service.kill('SIGCONT')
  const statuses = (await Promise.all(responses)).map((bytes) => parseResponses(bytes)[0]?.status)
  t.strictSame(new Set(statuses), new Set([200]))
})

t.test('a token is made with the entry that recognises it', async (t) => {
  const made = await Promise.all([
    run(t, ['src/commands/create-token.ts', 'shop'], covered),
    run(t, ['src/commands/create-token.ts', 'shop'])
  ])
  const secrets = made.map(({ code, stdout, stderr }) => {
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    const form = /^token {2}([A-Za-z0-9_-]{43})\nentry {2}(.*)\n$/
    const [, token = '', entry] = form.exec(stdout) ?? []
    t.equal(entry, `shop:sha256:${hash('sha256', token)}`)
    return token
  })
  t.not(secrets[0], secrets[1])
})

t.test('no token is made for a bad name, an option, no name or two', async (t) => {
  const rule = 'the token has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
  for (const name of ['', 'my shop', 'sha256', 'a:b', 'x'.repeat(65)]) {
    t.strictSame(await run(t, ['src/commands/create-token.ts', name]), refusal(rule), name)
  }
  const usage = 'usage: token NAME, which does not begin with "-"'
  for (const args of [[], ['a', 'b'], ['--version'], ['-x']])
    t.strictSame(await run(t, ['src/commands/create-token.ts', ...args], covered), refusal(usage))
  for (const flag of ['--help', '-h'])
    t.strictSame(await run(t, ['src/commands/create-token.ts', flag], covered), {
      code: 0,
      stdout: `${usage}\n`,
      stderr: ''
    })
})

t.test('a service whose log is on a full disk serves, drains, and ends with 0', async (t) => {
  const port = await freePort()
  const env = {
    PATH: process.env.PATH,
    ...settings,
    PORT: String(port),
    METRICS_PORT: '0',
    DATABASE_URL: await createDatabase(t)
  }
  const command = `exec '${process.execPath}' src/server.ts >/dev/full`
  const child = spawn('sh', ['-c', command], { cwd: join(import.meta.dirname, '..'), env, stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  await until('it serves', () => fetch(`${url}/readyz`).catch(() => undefined))
  const [response] = parseResponses(
    await exchange(url, [
      request('{"id":1,"name":"n"}', { authorization: `Bearer ${secret}`, connection: 'close' })
    ])
  )
  t.match(response, { status: 200, body: '{"name":"n"}' })
  child.kill('SIGTERM')
  t.strictSame(await ended, [0, null])
})
