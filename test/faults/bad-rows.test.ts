/** One row that is the cause of a failure, among 200 creates on a real PostgreSQL: its neighbours are all stored. */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { addTrigger, query } from '../../harness/postgres/database.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { createIn, type Service, startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const server = await startServer(t)
/** Shared machines are slow at times; only what is the cause of a failure waits for it. */
const deadlineMs = scaled(12_000)
const env = { DATABASE_URL: server.url, WRITE_DEADLINE_MS: String(deadlineMs) }
let lastId = 0

/** What becomes of creates that come in one turn: `created`, or the failure's name. */
const startCreates = (service: Service, ids: number[], name = 'n', idempotencyKey?: string) =>
  ids.map((id) => createIn(service, { id: BigInt(id), name }, 'tester', idempotencyKey))

const create = (...parameters: Parameters<typeof startCreates>) => Promise.all(startCreates(...parameters))

/** Creates 200 plants, the 101st with the id of the bad row; returns when all others have their outcome. */
async function createAround(t: Test, service: Service, bad: number) {
  const ids = Array.from({ length: 200 }, (_, index) => (index === 100 ? bad : ++lastId))
  const outcomes = startCreates(service, ids)
  const [own] = outcomes.splice(100, 1)
  const counts = new Map<string, number>()
  for (const outcome of await Promise.all(outcomes)) counts.set(outcome, (counts.get(outcome) ?? 0) + 1)
  t.strictSame([...counts], [['created', 199]], 'its neighbours are created')
  return { own }
}

/** A trigger of an operator, until the function is called that it returns, or the test ends. */
const withTrigger = (t: Test, statements: string, when?: string) =>
  addTrigger(t, server.url, statements, when)

const count = async (service: Service, name: string) =>
  parseMetrics(await service.metrics()).value(`plant_store_${name}`)

t.test('a stored row whose text is damaged: 409, as what it holds is not read', async (t) => {
  const damaged = ++lastId
  // Random, so that compression leaves it too large for its page.
  const text = `(select string_agg(md5(random()::text), '') from generate_series(1, 1000))`
  await query(server.url, `insert into plants values (${damaged}, ${text}, null, gen_random_uuid())`)
  const toast = `select pg_relation_filepath(reltoastrelid) as path from pg_class where relname = 'plants'`
  const [{ path }] = await query(server.url, toast)
  await server.down()
  const file = await open(join(server.directory, 'cluster', path), 'r+')
  await file.write(Buffer.alloc((await file.stat()).size), 0)
  await file.close()
  await server.up()
  await t.rejects(query(server.url, `select name from plants where id = ${damaged}`), { code: 'XX001' })
  const service = await startService(t, env)
  const { own } = await createAround(t, service, damaged)
  t.equal(await own, 'DuplicatePlant')
})

t.test('the function that waits for the standby may not be executed: 500 for a duplicate', async (t) => {
  const role = 'limited'
  await query(server.url, `create role ${role} login password 'limited'`)
  await query(server.url, `grant select, insert on plants to ${role}`)
  await query(
    server.url,
    'revoke execute on function pg_logical_emit_message(bool, text, text, bool) from public'
  )
  const url = new URL(server.url)
  url.username = url.password = role
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  const bad = ++lastId
  await query(server.url, `insert into plants values (${bad}, 'theirs', null, gen_random_uuid())`)
  const { own } = await createAround(t, service, bad)
  t.equal(await own, 'Internal')
})

t.test('a trigger that reports a broken connection of its own, on a session that lives', async (t) => {
  const service = await startService(t, env)
  const bad = ++lastId
  const repair = await withTrigger(t, `if new.id = ${bad} then raise sqlstate '08006'; end if;`)
  const { own } = await createAround(t, service, bad)
  await repair()
  t.equal(await own, 'created')
  t.equal(await count(service, 'pool_resets_total'), 0)
})

t.test('a row that lasts longer than a transaction may', async (t) => {
  const url = new URL(server.url)
  url.search = '?options=-c%20transaction_timeout=300ms'
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  const bad = ++lastId
  const repair = await withTrigger(t, `if new.id = ${bad} then perform pg_sleep(600); end if;`)
  const { own } = await createAround(t, service, bad)
  await repair()
  t.equal(await own, 'created')
  t.equal(await count(service, 'pool_resets_total'), 0, 'only its own session has ended')
})

t.test('a right that is missing is missing for all: one attempt', async (t) => {
  await query(server.url, `create role reader login password 'reader'`)
  await query(server.url, 'grant select on plants to reader')
  const url = new URL(server.url)
  url.username = url.password = 'reader'
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  const ids = Array.from({ length: 200 }, () => ++lastId)
  t.strictSame(new Set(await create(service, ids)), new Set(['Internal']))
  const attempts = parseMetrics(await service.metrics()).values('plant_store_batch_duration_seconds_count')
  const total = Object.values(attempts).reduce((sum, value) => sum + value, 0)
  t.equal(total, 1)
})

t.test('duplicates of large plants read next to nothing of them', async (t) => {
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const service = await startService(t, {
    ...env,
    DATABASE_URL: url.href,
    WRITE_DEADLINE_MS: String(scaled(30_000)),
    // A caller alone has half of it.
    WRITE_QUEUE_BYTES: '100000000'
  })
  const ids = Array.from({ length: 32 }, () => ++lastId)
  const large = 'x'.repeat(2 ** 20)
  t.strictSame(new Set(await create(service, ids, large, 'key')), new Set(['created']))
  for (const [key, failure] of [
    [undefined, 'DuplicatePlant'],
    ['key', 'ReusedKey']
  ] as const) {
    const before = proxy.received()
    t.strictSame(new Set(await create(service, ids, 'n', key)), new Set([failure]))
    const bytes = proxy.received() - before
    t.ok(bytes < 32 * 1024, `${failure}: ${bytes} bytes`)
  }
})

t.test('a process that stood still for longer than the deadline reads the response first', async (t) => {
  const service = await startService(t, { ...env, WRITE_DEADLINE_MS: '2000' })
  await create(service, [++lastId])
  await withTrigger(t, 'perform pg_sleep(0.2);')
  const stored = create(service, [++lastId])
  await sleep(10)
  await new Promise((resolve) => setImmediate(resolve))
  // As after SIGSTOP: the timers are due, and the response waits in the socket.
  const end = performance.now() + 3_000
  while (performance.now() < end);
  t.strictSame(await stored, ['created'])
})

t.test('commits wait for the disk even where the session is set not to wait', async (t) => {
  const url = new URL(server.url)
  url.search = '?options=-c%20synchronous_commit=off%20-c%20client_min_messages=error'
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  await withTrigger(
    t,
    `new.tag := current_setting('synchronous_commit') || ' ' || current_setting('client_min_messages');`
  )
  const ids = [++lastId, ++lastId]
  t.strictSame(await create(service, ids.slice(0, 1)), ['created'])
  t.strictSame(await create(service, [...ids.slice(1), ++lastId]), ['created', 'created'])
  const rows = await service.rows('select distinct tag from plants where id = any ($1)', [ids])
  t.strictSame(rows, [{ tag: 'on warning' }])
})

t.test('a field that a trigger rewrites, and a lost response: a repeat finds its own plant', async (t) => {
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  await withTrigger(t, 'new.name := trim(new.name);')
  await create(service, [++lastId])
  for (const key of [undefined, 'key']) {
    proxy.lose(1)
    t.strictSame(await create(service, [++lastId], ' padded ', key), ['created'])
  }
  t.strictSame(await create(service, [lastId], ' padded ', 'key'), ['replayed'])
})

t.test('a session that ends with any code leaves open what is written', async (t) => {
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  await create(service, [++lastId])
  proxy.endFatally('57000')
  const id = ++lastId
  t.strictSame(await create(service, [id]), ['created'], 'it recognises its own row')
  t.strictSame(await create(service, [id]), ['DuplicatePlant'])
})

t.test('an id that is wanted on two replicas, where commits take long: no batch breaks', async (t) => {
  const services = await Promise.all([startService(t, env), startService(t, env)])
  // A service waits for a lock as long as for two usual writes, here 250 ms; the one that comes second needs 100 of them.
  const body = `
    if new.name <> 'wanted' then perform pg_sleep(0.125); return new; end if;
    while not exists (select from pg_locks where locktype = 'transactionid' and not granted) loop
      perform pg_sleep(0.001);
    end loop;
    perform pg_sleep(0.1);`
  await withTrigger(t, body, 'after')
  for (const service of services) await create(service, [++lastId])
  async function countBroken(service: Service) {
    const attempts = parseMetrics(await service.metrics()).values('plant_store_batch_duration_seconds_count')
    return { ...attempts, written: 0, found: 0 }
  }
  const countAll = () => Promise.all(services.map(countBroken))
  // On a machine that stands still for a moment a batch breaks all the same.
  await until('a time when none breaks', async () => {
    const before = await countAll()
    const id = ++lastId
    const outcomes = await Promise.all(services.map((service) => create(service, [id], 'wanted')))
    t.strictSame(outcomes.flat().sort(), ['DuplicatePlant', 'created'])
    return isDeepStrictEqual(await countAll(), before)
  })
})
