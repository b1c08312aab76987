/** The pool on a real PostgreSQL: what happens to connections and statements that are given up. */
import t from 'tap'
import { NoConnection } from '../src/database/errors.ts'
import { createPool } from '../src/database/pool.ts'
import { parseDatabaseUrl } from '../src/database/url.ts'
import { createDatabase, query } from './support/database.ts'
import { until } from './support/until.ts'

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
    await until(active, ({ length }) => length === 1)
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
  t.strictSame(await until(active, ({ length }) => length === 0), [])
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
