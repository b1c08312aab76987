/** The pool on a real PostgreSQL: what happens to connections and statements that are given up. */
import t, { type Test } from 'tap'
import { until } from '../../dev/until.ts'
import { classify, NoConnection, OutcomeOpen } from '../../src/database/errors.ts'
import { createPool } from '../../src/database/pool.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { createDatabase, query } from '../support/database.ts'
import { startProxy } from '../support/proxy.ts'

const url = await createDatabase(t)
const connection = parseDatabaseUrl(url)
const active = () =>
  query(url, `select pid from pg_stat_activity where query = 'select pg_sleep(20)' and state = 'active'`)
const options = { connection, size: 1, limitMs: 15_000, log: { warn: () => {} } }

t.test(
  'a statement that is given up is cancelled at the server, and its connection ends: a cancel may come late',
  async (t) => {
    const pool = createPool(options)
    t.teardown(() => pool.end())
    const pid = async () =>
      (await pool.query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' })).rows[0]?.pid
    const before = await pid()
    const controller = new AbortController()
    const sleeping = pool.query({ text: 'select pg_sleep(20)' }, controller.signal)
    await until('it runs', active, ({ length }) => length === 1)
    controller.abort()
    await t.rejects(sleeping, { code: '57014' })
    t.not(await pid(), before)
  }
)

t.test('a statement beyond the limit is cancelled too', async (t) => {
  const pool = createPool({ ...options, limitMs: 2_000 })
  t.teardown(() => pool.end())
  const began = performance.now()
  await t.rejects(pool.query({ text: 'select pg_sleep(20)' }), { code: '57014' })
  t.ok(performance.now() - began < 15_000)
  t.strictSame(await until('it is cancelled', active, ({ length }) => length === 0), [])
})

t.test('what is given up before it has a connection is never sent', async (t) => {
  const pool = createPool(options)
  t.teardown(() => pool.end())
  const first = pool.query({ text: 'select pg_sleep(1)' })
  const controller = new AbortController()
  const second = pool.query({ text: 'create table never ()' }, controller.signal)
  controller.abort()
  await t.rejects(second, NoConnection)
  await first
  t.strictSame(await query(url, `select 1 from pg_class where relname = 'never'`), [])
})

/** A pool of one connection, through a proxy. */
async function createPoolBehind(t: Test, limitMs: number) {
  const proxy = await startProxy(t, Number(new URL(url).port))
  const pool = createPool({
    ...options,
    connection: { ...connection, host: '127.0.0.1', port: proxy.port },
    limitMs
  })
  t.teardown(() => pool.end())
  return { proxy, pool }
}

t.test(
  'a statement on a connection that fell silent behind an error is given up, and the pool goes on',
  async (t) => {
    const { proxy, pool } = await createPoolBehind(t, 2_000)
    await pool.query({ text: 'select 1' })
    proxy.silenceAfterError()
    await t.rejects(pool.query({ text: 'select 1 / 0' }), { code: '22012' })
    const began = performance.now()
    await t.rejects(pool.query({ text: 'select 2' }), {
      message: 'the server does not react to a cancel request'
    })
    t.ok(performance.now() - began < 20_000)
    t.equal(pool.state.resets, 1)
    t.equal((await pool.query({ text: 'select 3' })).rows.length, 1)
  }
)

t.test('a success of a statement that was cancelled is not believed', async (t) => {
  const { proxy, pool } = await createPoolBehind(t, 2_000)
  await pool.query({ text: 'select 1' })
  proxy.holdUntilCancelled()
  await t.rejects(pool.query({ text: 'select 2' }), OutcomeOpen)
})

t.test('a transaction time-out ends the connection, and leaves open what was written', async (t) => {
  const own = await createDatabase(t)
  await query(own, `alter database ${new URL(own).pathname.slice(1)} set transaction_timeout = '500ms'`)
  const pool = createPool({ ...options, connection: parseDatabaseUrl(own) })
  t.teardown(() => pool.end())
  const error = await pool.query({ text: 'select pg_sleep(20)' }).catch((error) => error)
  t.match(error, { code: '25P04', severity: 'FATAL' })
  t.equal(classify(error), 'uncertain')
  t.equal(pool.state.resets, 1)
})
