/** Sessions of the database: their limits, and when which of them are replaced. */
import t, { type Test } from 'tap'
import { Database } from '../src/database/database.ts'
import { NoConnection } from '../src/database/errors.ts'
import { parseDatabaseUrl } from '../src/database/url.ts'
import { createDatabase, query } from './support/postgres/database.ts'
import { until } from './support/until.ts'

const limitMs = 60_000
const url = await createDatabase(t)
const select = { text: 'select pg_backend_pid() as pid' }
const sleep = (ms: number) => ({ text: `select pg_sleep(${ms / 1000})` })

/** Opens the database; `warnings` gets what it logs. */
function open(t: Test, parameters = '') {
  const warnings: unknown[] = []
  const options = parseDatabaseUrl(url + parameters)
  const database = new Database(options, {
    warn: (...line: unknown[]) => warnings.push(line.at(-1))
  } as never)
  t.teardown(() => database.end())
  return { database, options, warnings }
}

t.test('a statement beyond its limit is cancelled, and its session ends alone', async (t) => {
  const { database, warnings } = open(t)
  // A session that is open already: on a busy machine, opening one takes longer than the limits below.
  const openOne = () => database.run(select, limitMs)
  await openOne()
  await t.rejects(database.run(sleep(limitMs), 100), { code: '57014' })
  await openOne()
  await t.rejects(database.run(sleep(limitMs), limitMs, AbortSignal.timeout(100)), { code: '57014' })
  t.strictSame(database.state, { busy: 0, idle: 0, waiting: 0 })
  t.strictSame(warnings, [])
})

t.test('a cancel request that is late meets no other statement', async (t) => {
  const { database } = open(t)
  for (let count = 0; count < 50; count++) {
    // It may have its result, be cancelled, or have no session in time.
    await database.run(sleep(2), 2).catch(() => {})
    await t.resolves(database.run(sleep(5), limitMs))
  }
})

t.test('statements share the free session that was used last', async (t) => {
  const { database } = open(t)
  const pids = async (count: number) => {
    const all = await Promise.all(
      Array.from({ length: count }, () => database.run<{ pid: number }>(select, limitMs))
    )
    return all.map(({ rows }) => rows[0]?.pid)
  }
  await pids(3)
  t.strictSame(database.state, { busy: 0, idle: 3, waiting: 0 })
  t.strictSame(await pids(1), await pids(1))
})

t.test(
  'when a free session is lost, all are replaced; when one is terminated in a statement, too',
  async (t) => {
    const { database, warnings } = open(t)
    await Promise.all([database.run(select, limitMs), database.run(select, limitMs)])
    const { rows } = await database.run<{ pid: number }>(select, limitMs)
    await query(url, 'select pg_terminate_backend($1)', [rows[0]?.pid])
    await until('all are replaced', () => warnings.length === 1)
    t.equal(database.state.idle, 0)
    t.rejects(database.run({ text: 'select pg_terminate_backend(pg_backend_pid())' }, limitMs), {
      name: 'ResultUnknown'
    })
    await until('all are replaced again', () => warnings.length === 2)
    t.equal(new Set(warnings).size, 1)
    t.match(warnings[0], 'a database connection failed')
  }
)

t.test('a session of a former URL is used for no other statement', async (t) => {
  const { database, options } = open(t)
  const show = () => database.run<{ application_name: string }>({ text: 'show application_name' }, limitMs)
  const waiting = show()
  t.equal(database.state.waiting, 1)
  database.replaceOptions({ ...options, application_name: 'second' })
  await waiting
  t.strictSame(database.state, { busy: 0, idle: 0, waiting: 0 })
  t.match((await show()).rows[0], { application_name: 'second' })
})

t.test('a read-only session ends alone', async (t) => {
  const { database, warnings } = open(t, '?options=-c%20default_transaction_read_only%3Don')
  const write = { text: 'create table refused ()' }
  for (let count = 0; count < 3; count++) await t.rejects(database.run(write, limitMs), { code: '25006' })
  t.strictSame(database.state, { busy: 0, idle: 0, waiting: 0 })
  t.strictSame(warnings, [])
  t.equal(database.reports.counts['25006'], 3)
})

t.test('no session in time, or at all: no statement was sent', async (t) => {
  const { database } = open(t)
  await t.rejects(database.run(select, 0), NoConnection)
  await t.rejects(database.run(select, limitMs, AbortSignal.abort()), NoConnection)
  database.replaceOptions(parseDatabaseUrl('postgres://127.0.0.1:1/plants'))
  await t.rejects(database.run(select, limitMs), NoConnection)
  t.equal(database.state.waiting, 0)
})
