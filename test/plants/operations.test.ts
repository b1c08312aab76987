/** Every operation of the interface does what its declaration says, also while the database does not serve it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { lockTable } from '../../harness/postgres/database.ts'
import { headers, read, startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { findMissing } from '../../src/database/wait-for-database.ts'
import type { Operation } from '../../src/operation.ts'
import { operations } from '../../src/plants/route.ts'
import { databaseChecks } from '../../src/plants/statements.ts'

type Examples = Operation['success']['examples']

const text = (path: string) => readFileSync(join(import.meta.dirname, '../..', path), 'utf8')

/** The plants of the examples, by their names: one has the values that the paths of other operations name. */
const plants = Object.assign({}, ...operations.map(({ body }) => body?.examples)) as Examples
const [first] = Object.values(plants)

/** Requests an operation for the plant of an example; returns the whole response. */
async function request(
  url: string,
  { method, path, body }: Operation,
  { value } = first as Examples[string]
) {
  const target = path.replaceAll(/{(\w+)}/g, (_, name) => `${Reflect.get(value, name)}`)
  const init = { method, headers, ...(body && { body: JSON.stringify(value) }) }
  return read(await fetch(url + target, init))
}

/** Requests an operation; returns the name of what failed. */
const nameFailure = async (url: string, operation: Operation) =>
  (await request(url, operation)).headers['error-name']

const room = 8
const impatient = { WRITE_DEADLINE_MS: '1000' }
/** On a slow machine, no connection may be there in time. */
const unavailable = /^(DeadlineExceeded|Unavailable|OutcomeUnknown)$/
const service = await startService(t, { WRITE_QUEUE_ROWS: `${room}` })
const { url, app, databaseUrl } = service
const reading = operations.filter(({ writes }) => !writes)
const writing = operations.filter(({ writes }) => writes)

/** Returns the connections to the database, when it has as many as the pools of the service say. */
const findConnections = () =>
  until(
    'app.database knows each connection',
    () =>
      service.rows(`
        select pid from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`),
    ({ length }) => length === app.database.state.total,
    scaled(10_000)
  )

t.test('what reads finds nothing in an empty table, and takes no connection of what writes', async (t) => {
  for (const operation of reading) {
    t.equal(await nameFailure(url, operation), 'NotFound', operation.id)
  }
  const before = await findConnections()
  for (const operation of writing) await request(url, operation)
  const opened = (await findConnections()).length - before.length
  t.ok(opened > 0)
  await service.rows('delete from plants')
})

t.test('each responds as its examples say, and has a line of its own in the log', async (t) => {
  for (const operation of [...writing, ...reading]) {
    const { method, path, success } = operation
    const lines = () => service.log().filter(({ msg }) => msg === success.logged)
    const count = lines().length
    for (const [name, example] of Object.entries(plants)) {
      const { status, body } = await request(url, operation, example)
      t.strictSame(
        [status, JSON.parse(body)],
        [200, success.examples[name]?.value],
        `${operation.id} ${name}`
      )
    }
    const route = path.replaceAll(/{(\w+)}/g, ':$1')
    await until('they are logged', () => lines().length === count + Object.keys(plants).length)
    for (const line of lines()) t.match(line, { method, route, caller: 'tester' }, operation.id)
  }
})

t.test('the start tries each statement that they run', async (t) => {
  const sent = t.capture(pg.Client.prototype, 'query', pg.Client.prototype.query)
  const texts = () => sent().map(({ args: [query] }) => (query as pg.QueryConfig).text ?? `${query}`)
  for (const operation of operations) await request(url, operation)
  const run = texts()
  t.ok(run.length >= operations.length)
  t.equal(await findMissing(app.database.options, scaled(30_000), databaseChecks), undefined)
  const tried = texts().slice(run.length)
  for (const text of run) t.ok(tried.includes(text), `databaseChecks has ${text}`)
})

t.test('each declares the parameters of its path', async (t) => {
  for (const { path, params, id } of operations)
    for (const [, name = ''] of path.matchAll(/{(\w+)}/g))
      t.match(params?.properties[name], { rule: /^an? ./, description: /^[A-Z]/ }, `${id}: ${name}`)
})

t.test('the README and the changelog name each', async (t) => {
  for (const page of ['README.md', 'CHANGELOG.md'])
    for (const { method, path } of operations) t.match(text(page), `${method} ${path}`, page)
})

t.test('while the table is locked, those that wait too long and those beyond the room get 503', async (t) => {
  const hasty = await startService(t, { DATABASE_URL: databaseUrl, ...impatient })
  const lock = await lockTable(t, databaseUrl)
  const served: Promise<unknown>[] = []
  const failed = operations.map(async (operation) => {
    const all = Array.from({ length: room + 1 }, () => nameFailure(url, operation))
    served.push(...all)
    // The others have much time.
    t.equal(await Promise.race(all), 'Overloaded', operation.id)
    t.match(await nameFailure(hasty.url, operation), unavailable, operation.id)
  })
  await Promise.all(failed)
  await lock.end()
  await Promise.all(served)
})

t.test('while the database is away, each gets 503', async (t) => {
  const away = await startService(t, { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', ...impatient })
  for (const operation of operations)
    t.match(await nameFailure(away.url, operation), unavailable, operation.id)
})

t.test('each connection is replaced by a new URL, and ends with the service', async (t) => {
  const old = await findConnections()
  t.ok(old.length > 0)
  app.database.replaceOptions(app.database.options)
  for (const operation of operations) {
    const name = await nameFailure(url, operation)
    t.not(name, 'Overloaded', `${operation.id}: what has waited has left its room`)
  }
  const pids = old.map(({ pid }) => pid)
  const left = () => service.rows('select pid from pg_stat_activity where pid = any ($1)', [pids])
  await until('the old connections have ended', left, hasLength(0), scaled(10_000))
  await app.close()
  t.strictSame(await findConnections(), [])
})
