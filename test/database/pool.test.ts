/** The pool on a real PostgreSQL: what happens to connections and statements that are given up. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { listen } from '../../harness/http/listen.ts'
import { createDatabase, query } from '../../harness/postgres/database.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { NoConnection, ResultUnknown } from '../../src/database/errors.ts'
import type { Pool } from '../../src/database/pool.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { probeDatabase } from '../../src/plants/probe.ts'
import { openPool } from './pool.ts'

const url = await createDatabase(t)
const connection = parseDatabaseUrl(url)
const active = (sleep = 'select pg_sleep(20)') =>
  query(url, `select pid from pg_stat_activity where query = $1 and state = 'active'`, [sleep])

t.test('a statement that is given up is cancelled, and its connection ends', async (t) => {
  const pool = openPool(t, connection)
  const pid = async () =>
    (await pool.query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' })).rows[0]?.pid
  const before = await pid()
  const controller = new AbortController()
  const sleeping = pool.query({ text: 'select pg_sleep(20)' }, controller.signal)
  await until('it runs', active, hasLength(1))
  controller.abort()
  await t.rejects(sleeping, { code: '57014' })
  t.not(await pid(), before)
})

t.test('a statement beyond the limit is cancelled too', async (t) => {
  const pool = openPool(t, connection, 2_000)
  const began = performance.now()
  await t.rejects(pool.query({ text: 'select pg_sleep(20)' }), { code: '57014' })
  t.ok(performance.now() - began < 15_000)
  t.strictSame(await until('it is cancelled', active, hasLength(0)), [])
})

t.test('statements that have ended leave no timer behind', async (t) => {
  const pool = openPool(t, connection, 60_000)
  const count = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  await pool.query({ text: 'select 1' })
  const before = count()
  for (let left = 50; left > 0; left--) await pool.query({ text: 'select 1' })
  t.ok(count() < before + 25, `${before} timers, then ${count()}`)
})

t.test('a statement that has ended is not cancelled: the request would meet the next one', async (t) => {
  const pool = openPool(t, connection)
  const clock = new Int32Array(new SharedArrayBuffer(4))
  const requests = await until('a result is there when its signal aborts', async () => {
    await pool.query({ text: 'select 1' })
    let opened = 0
    const count = () => void opened++
    subscribe('net.client.socket', count)
    const controller = new AbortController()
    const result = pool.query({ text: 'select 2' }, controller.signal)
    await turn()
    // The statement is sent, and its result waits in the socket: it is read before the next turn.
    Atomics.wait(clock, 0, 0, 500)
    controller.abort()
    await result.then(turn).finally(() => unsubscribe('net.client.socket', count))
    return [opened]
  })
  t.strictSame(requests, [0])
})

t.test('a statement that is given up before it has a connection is never sent', async (t) => {
  const pool = openPool(t, connection)
  const first = pool.query({ text: 'select pg_sleep(1)' })
  const controller = new AbortController()
  const second = pool.query({ text: 'create table never ()' }, controller.signal)
  let isFirstDone = false
  void first.then(() => (isFirstDone = true))
  controller.abort()
  await t.rejects(second, NoConnection)
  t.notOk(isFirstDone, 'it is not waited for')
  await t.rejects(pool.query({ text: 'create table never ()' }, controller.signal), NoConnection)
  await first
  t.equal((await pool.query({ text: 'select 1' })).rows.length, 1, 'what it waited for serves the next')
  t.strictSame(await query(url, `select 1 from pg_class where relname = 'never'`), [])
})

/** A pool of one connection, through a proxy. */
async function createPoolBehind(t: Test, limitMs: number) {
  const proxy = await startProxy(t, Number(new URL(url).port))
  const pool = openPool(t, { ...connection, host: '127.0.0.1', port: proxy.port }, limitMs)
  return { proxy, pool }
}

t.test('a connection that falls silent after an error is given up, and the pool continues', async (t) => {
  const { proxy, pool } = await createPoolBehind(t, 2_000)
  await pool.query({ text: 'select 1' })
  proxy.silenceAfterError()
  const began = performance.now()
  await t.rejects(pool.query({ text: 'select 1 / 0' }), { name: 'ResultUnknown', cause: { code: '22012' } })
  t.ok(performance.now() - began < 20_000)
  t.equal(pool.state.replacements, 1)
  t.equal((await pool.query({ text: 'select 3' })).rows.length, 1)
})

/** A statement that holds its connection; PostgreSQL may continue it after the connection is cut. */
async function occupy(pool: Pool, seconds: number) {
  const text = `select pg_sleep(${seconds})`
  const result = pool.query({ text })
  await until('the statement runs', () => active(text), hasLength(1))
  return { result }
}

t.test('a statement that waits while its pool is replaced gets a connection of the next pool', async (t) => {
  const { proxy, pool } = await createPoolBehind(t, 60_000)
  const busy = await occupy(pool, 21)
  const waiting = [2, 3, 4].map((number) => pool.query({ text: `select ${number}` }))
  t.equal(pool.state.waiting, 3)
  const began = performance.now()
  proxy.cut()
  await t.rejects(busy.result)
  for (const result of waiting) t.equal((await result).rows.length, 1)
  t.ok(performance.now() - began < 30_000, 'without waiting for the limit')
  t.equal(pool.state.replacements, 1)
})

/** Passes a connection on to PostgreSQL when it is opened. */
async function startGate(t: Test) {
  const opened = Promise.withResolvers<void>()
  const came = Promise.withResolvers<Socket>()
  const address = await listen(t, async (client) => {
    came.resolve(client)
    await opened.promise
    const server = connect(Number(new URL(url).port), '127.0.0.1')
    client.pipe(server).pipe(client)
  })
  const port = Number(new URL(address).port)
  return { host: { host: '127.0.0.1', port }, came: came.promise, open: opened.resolve }
}

t.test('a connection that opens after its pool was replaced is not lent', async (t) => {
  const other = parseDatabaseUrl(await createDatabase(t, { migrated: false }))
  const [first, second] = [await startGate(t), await startGate(t)]
  const pool = openPool(t, { ...connection, ...first.host }, 60_000)
  const result = pool.query({ text: 'select current_database() as name' })
  const socket = await first.came
  pool.replaceOptions({ ...other, ...second.host })
  await second.came
  const closed = once(socket, 'close')
  first.open()
  await closed
  second.open()
  t.strictSame((await result).rows, [{ name: other.database }])
})

t.test('a statement waits for a connection within its limit, also when its pool is replaced', async (t) => {
  const { proxy, pool } = await createPoolBehind(t, 5_000)
  const busy = await occupy(pool, 22)
  const began = performance.now()
  const waiting = pool.query({ text: 'select 2' })
  proxy.fallSilent()
  proxy.cut()
  await t.rejects(busy.result)
  await t.rejects(waiting, NoConnection)
  t.ok(performance.now() - began < 60_000)
})

t.test('a connection that was given up and fails long after resets no pool', async (t) => {
  const sockets: Socket[] = []
  subscribe('net.client.socket', (message) => sockets.push((message as { socket: Socket }).socket))
  const pool = openPool(t, connection)
  const controller = new AbortController()
  const sleeping = pool.query({ text: 'select pg_sleep(20)' }, controller.signal)
  const [socket] = sockets
  await until('the statement runs', active, hasLength(1))
  controller.abort()
  await sleeping.catch(() => {})
  // Its end is on its way, and the server's will not come: that is what the system reports then, after a quarter of an hour.
  t.notOk(socket?.closed)
  socket?.destroy(Object.assign(new Error('read ETIMEDOUT'), { code: 'ETIMEDOUT' }))
  t.equal((await pool.query({ text: 'select 1' })).rows.length, 1)
  t.equal(pool.state.replacements, 0)
})

t.test('a connection that its server refuses, and does not close, is closed', async (t) => {
  const refusal = Buffer.from('E\0\0\0\x26SFATAL\0C57P03\0Mit is starting up\0\0', 'latin1')
  const came = Promise.withResolvers<Socket>()
  const address = await listen(t, (socket) => {
    came.resolve(socket)
    socket.once('data', () => socket.write(refusal)).resume()
  })
  await t.rejects(openPool(t, parseDatabaseUrl(address)).query({ text: 'select 1' }), NoConnection)
  const socket = await came.promise
  if (!socket.readableEnded) await once(socket, 'end')
})

t.test('a success after a cancel is not trusted', async (t) => {
  const { proxy, pool } = await createPoolBehind(t, 2_000)
  await pool.query({ text: 'select 1' })
  proxy.holdUntilCancelled()
  await t.rejects(pool.query({ text: 'select 2' }), ResultUnknown)
})

t.test('an error that a trigger raises says nothing about its connection', async (t) => {
  const pool = openPool(t, connection)
  for (const code of ['25006', '0A000'])
    await t.rejects(pool.query({ text: `do $$ begin raise sqlstate '${code}'; end $$` }), { code })
  t.strictSame(pool.state, { size: 1, total: 1, idle: 1, waiting: 0, replacements: 0 })
})

const isOld = (await query(url, `select from pg_settings where name = 'transaction_timeout'`)).length === 0
const skip = isOld && 'transaction_timeout came with PostgreSQL 17'
t.test('a time-out of the transaction ends its connection, the outcome left open', { skip }, async (t) => {
  const own = await createDatabase(t)
  await query(own, `alter database ${new URL(own).pathname.slice(1)} set transaction_timeout = '500ms'`)
  const pool = openPool(t, parseDatabaseUrl(own))
  const error = await pool.query({ text: 'select pg_sleep(20)' }).catch((error) => error)
  t.match(error, { name: 'ResultUnknown', cause: { code: '25P04', severity: 'FATAL' } })
  t.equal((await pool.query({ text: 'select 1' })).rows.length, 1)
  t.equal(pool.state.replacements, 0)
})

t.test('a read-only connection is replaced: the address may lead to another server by now', async (t) => {
  const own = await createDatabase(t)
  const pool = openPool(t, parseDatabaseUrl(own))
  // Sessions keep what they began with.
  const set = (value: string) =>
    query(
      url,
      `alter database "${new URL(own).pathname.slice(1)}" set default_transaction_read_only = ${value}`
    )
  await set('on')
  await t.rejects(probeDatabase(pool, 'select'), { message: 'the database is read-only' })
  await set('off')
  await t.resolves(probeDatabase(pool, 'select'))
  t.equal(pool.state.replacements, 1)
})
