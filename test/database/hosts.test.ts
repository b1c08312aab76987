/** Several hosts in a database URL, on a primary and its standby: which one is used, and a failover under load. */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { assertHistory } from '../../harness/histories/assert-rows.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { listen } from '../../harness/http/listen.ts'
import { query } from '../../harness/postgres/database.ts'
import { startService, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { migrate } from '../../src/commands/migrations.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { waitForDatabase } from '../../src/database/wait-for-database.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { openPool } from './pool.ts'
import { startPair } from './standby.ts'

const pair = await startPair(t)
const { primary, standby, urlOf } = pair
const refused = '127.0.0.1:1'
const portOf = (host: string) => Number(host.split(':')[1])

function open(t: Test, url: string, limitMs = scaled(30_000)) {
  const pool = openPool(t, parseDatabaseUrl(url), limitMs)
  /** The port of the server that a statement meets. */
  const ask = async () => {
    const text = 'select inet_server_port() as port'
    return (await pool.query<{ port: number }>({ text })).rows[0]?.port
  }
  return { pool, ask }
}

/** A host that accepts connections and never responds; `taken` holds them. */
async function startSilent(t: Test) {
  const taken: Socket[] = []
  const url = await listen(t, (socket) => void taken.push(socket.resume()))
  return { host: new URL(url).host, taken }
}

const orders: [title: string, ...hosts: string[]][] = [
  ['first', primary.host, standby.host],
  ['second', standby.host, primary.host],
  ['third', refused, standby.host, primary.host]
]
for (const [title, ...hosts] of orders)
  t.test(`read-write among hosts, the primary the ${title}`, async (t) => {
    t.equal(await open(t, urlOf(hosts)).ask(), portOf(primary.host))
  })

t.test('what PostgreSQL has reported is counted and told, also if another host is a standby', async (t) => {
  const refusal = message('E', Buffer.from('SFATAL\0C53300\0Mtoo many of us\0\0'))
  const full = await listen(t, (socket) => void socket.once('data', () => socket.end(refusal)))
  for (const hosts of [
    [new URL(full).host, standby.host],
    [standby.host, new URL(full).host]
  ]) {
    const { pool, ask } = open(t, urlOf(hosts))
    await t.rejects(ask(), { name: 'NoConnection', cause: { code: '53300', message: 'too many of us' } })
    t.equal(pool.reports.counts['53300'], 1)
    t.ok(pool.reports.isExhausted)
  }
})

t.test('read-write with one host refuses a standby, and a database that is read-only', async (t) => {
  await t.rejects(open(t, urlOf([standby.host])).ask(), { cause: { message: 'the server is read-only' } })
  const options = '&options=-c%20default_transaction_read_only%3Don'
  const url = `${urlOf([primary.host])}${options}`
  await t.rejects(open(t, url).ask(), { cause: { message: 'the server is read-only' } })
  t.equal(await open(t, `${urlOf([primary.host], 'any')}${options}`).ask(), portOf(primary.host))
})

t.test('a silent host delays only the first connection, for its part of the limit', async (t) => {
  const { host, taken } = await startSilent(t)
  const limitMs = scaled(6_000)
  const { pool, ask } = open(t, urlOf([host, primary.host]), limitMs)
  t.equal(await ask(), portOf(primary.host))
  await pool.query({ text: 'select pg_terminate_backend(pg_backend_pid())' }).catch(() => {})
  await until('the connections are replaced', () => pool.state.replacements, Boolean)
  t.equal(await ask(), portOf(primary.host))
  t.equal(taken.length, 1)
})

t.test('when all hosts fail, a statement fails within its limit', async (t) => {
  await t.rejects(open(t, urlOf([refused, standby.host])).ask(), { name: 'NoConnection' })
  const silent = await startSilent(t)
  const { pool, ask } = open(t, urlOf([silent.host, silent.host]), 400)
  await t.rejects(ask(), { name: 'NoConnection' })
  t.equal(pool.state.waiting, 0)
})

t.test('a statement is cancelled at the host that runs it', async (t) => {
  const { pool } = open(t, urlOf([standby.host, primary.host]))
  const controller = new AbortController()
  const sleeping = pool.query({ text: 'select pg_sleep(60)' }, controller.signal)
  const running = `select 1 from pg_stat_activity where query = 'select pg_sleep(60)' and state = 'active'`
  await until('it runs', () => query(primary.url, running), hasLength(1))
  controller.abort()
  await t.rejects(sleeping, { code: '57014' })
})

/** Message formats of the PostgreSQL manual: a login that does not mention recovery, then rows of one text column. */
const message = (type: string, body: Buffer) => {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
const ready = message('Z', Buffer.from('I'))
const welcome = Buffer.concat([message('R', Buffer.alloc(4)), ready])
const responseOf = (text: string) => {
  const column = Buffer.concat([
    Buffer.from('\0\x01transaction_read_only\0'),
    Buffer.alloc(6),
    Buffer.from('\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0', 'latin1')
  ])
  const row = Buffer.concat([Buffer.from([0, 1, 0, 0, 0, text.length]), Buffer.from(text)])
  return Buffer.concat([message('T', column), message('D', row), message('C', Buffer.from('SHOW\0')), ready])
}

t.test('a server is asked whether it is read-only', async (t) => {
  const asked: string[] = []
  const hostOf = async (response: string) => {
    const url = await listen(t, (socket) => {
      socket.once('data', () => {
        socket.write(welcome)
        socket.once('data', (data) => {
          asked.push(data.toString('latin1', 5, data.length - 1))
          socket.write(responseOf(response))
        })
      })
    })
    return new URL(url).host
  }
  const readOnly = await hostOf('on')
  t.equal(await open(t, urlOf([readOnly, primary.host])).ask(), portOf(primary.host))
  t.strictSame(asked, ['show transaction_read_only'])
  const written = await hostOf('off')
  t.equal(await waitForDatabase(() => parseDatabaseUrl(urlOf([written])), scaled(10_000), []), undefined)
})

t.test('migrations find the primary, and a start-up fault has what each host says', async (t) => {
  const database = parseDatabaseUrl(urlOf([standby.host, primary.host]))
  t.strictSame(await migrate({ database, startupTimeoutMs: scaled(30_000) }, 'up'), [])
  const fault = `the database cannot be reached: ${refused} connect ECONNREFUSED ${refused}; ${standby.host} the server is read-only`
  const waiting = waitForDatabase(() => parseDatabaseUrl(urlOf([refused, standby.host])), scaled(5_000), [])
  await t.rejects(waiting, new StartupFault([fault]))
})

t.test('a host that closes the connection at once is told so', async (t) => {
  const url = await listen(t, (socket) => socket.end())
  const fault =
    'the database cannot be reached: the connection was closed before it was ready: check the host and the port'
  await t.rejects(
    waitForDatabase(() => parseDatabaseUrl(url), 1_000, []),
    new StartupFault([fault])
  )
})

t.test('connect_timeout bounds each host', async (t) => {
  const silent = await startSilent(t)
  const hosts = urlOf([silent.host, silent.host, primary.host])
  const began = performance.now()
  t.equal(await open(t, `${hosts}&connect_timeout=1`, scaled(600_000)).ask(), portOf(primary.host))
  t.ok(performance.now() - began < scaled(9_000), 'each would have 5 s')
})

t.test('a connection that is accepted and ended in one packet fails only the statement', async (t) => {
  const fatal = Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0')
  const url = await listen(t, (socket) => {
    const letsIn = [message('R', Buffer.alloc(4)), ready, message('E', fatal)]
    socket.once('data', () => socket.end(Buffer.concat(letsIn)))
  })
  await t.rejects(open(t, `${url}?sslmode=disable`).ask())
})

t.test('after a failover the new primary is found; clients wait and see no error', async (t) => {
  const url = urlOf([primary.host, standby.host])
  const service = await startService(t, { DATABASE_URL: url, WRITE_DEADLINE_MS: String(scaled(20_000)) })
  const load = startRivals({ urls: [service.url], token, clients: 16 })
  t.teardown(() => load.stop())
  await load.succeed(500)
  await pair.kill()
  await pair.promote()
  await load.succeed(500)
  await assertHistory(t, standby.url, await load.stop())
})
