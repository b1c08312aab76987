/** Whatever state the database is in: a response of the contract in bounded time, and service again afterwards. */
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import {
  addTrigger,
  lockTable,
  openSession,
  query,
  setServer,
  untilBlocked
} from '../../harness/postgres/database.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import {
  createIn,
  failure,
  headers,
  replay,
  type Service,
  startService,
  success
} from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { is, until } from '../../harness/time/until.ts'

const deadlineMs = scaled(3_000)
/** Shared machines are slow at times; what must not happen is a response long after the deadline. */
const marginMs = scaled(30_000)
const retry = { 'retry-after': '1' }
const unavailable = failure(
  503,
  'the database is unavailable; this request stored nothing; retry later',
  retry
)
const late = failure(503, 'the deadline passed; this request stored nothing; retry later', retry)
const undecided = failure(
  503,
  'the outcome is unknown: the plant may have been stored; repeat the same request',
  retry
)
const internal = failure(500, 'internal error', { 'write-outcome': 'none' })
const duplicate = failure(409, 'a plant with this id already exists')

const server = await startServer(t, { max_connections: '20' })
const env = { DATABASE_URL: server.url, WRITE_DEADLINE_MS: String(deadlineMs) }
/** Where callers must have their response from the table, however slow the machine. */
const patient = { ...env, WRITE_DEADLINE_MS: String(scaled(12_000)) }
/** Where nothing waits for the deadline. */
const calm = { ...env, WRITE_DEADLINE_MS: String(scaled(60_000)) }
let lastId = 0

/** At the deadline a row may be between two attempts, or in one whose outcome is open. */
const isUnavailable = (response: unknown) =>
  [late, undecided].some((expected) => isDeepStrictEqual(response, expected))

/** A connection that holds something while the service is asked. */
const session = (t: Test, sql: string) => openSession(t, server.url, sql)

/** Posts a fresh plant, or one of a given id, and checks that the response is in time. */
async function create(t: Test, service: Service, id = ++lastId, init: RequestInit = {}) {
  const began = performance.now()
  const response = await service.post({ id, name: 'n' }, init)
  t.ok(performance.now() - began < deadlineMs + marginMs, 'in bounded time')
  return response
}

/** Returns when commits wait for a standby: the process that switches that on may lag behind the setting. */
async function untilCommitsWait(t: Test) {
  const client = await session(t, 'select')
  const cancel = `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`
  for (let isWaiting = false; !isWaiting; ) {
    let isDone = false
    // Cancelled while it waits, a commit succeeds with a warning.
    const commit = client.query(`select pg_logical_emit_message(true, 'test', '')`).then(() => {
      isDone = true
    })
    await until('the commit waits, or is done', async () => {
      isWaiting = (await query(server.url, cancel)).length > 0
      return isWaiting || isDone
    })
    await commit
  }
}

/** Creates until one succeeds: a service that has refused at once finds the database by its probe. */
async function recovers(t: Test, service: Service) {
  const ask = async () => {
    const response = await service.post({ id: ++lastId, name: 'n' })
    if (response.status !== 200) t.equal(JSON.parse(response.body).error, 503)
    return response
  }
  const response = await until('a create succeeds', ask, ({ status }) => status === 200)
  t.strictSame(response, success({ name: 'n' }), 'serves again')
  t.strictSame(await service.rows('select name from plants where id = $1', [lastId]), [{ name: 'n' }])
}

t.test('down: 503 by the deadline, then at once, and 200 as soon as it is back', async (t) => {
  const service = await startService(t, env)
  t.strictSame(await create(t, service), success({ name: 'n' }))
  const began = performance.now()
  await server.down()
  t.ok(isUnavailable(await create(t, service)))
  t.strictSame(await create(t, service), unavailable, 'an outage beyond the deadline is not waited for')
  await server.up()
  await recovers(t, service)
  const messages = service.log().map(({ level, msg }) => `${level} ${msg}`)
  const away =
    '50 the database has been unreachable for the write deadline; refusing creates until it is back'
  const told = messages.filter((message) => message === away).length
  const minutes = (performance.now() - began) / 60_000
  t.ok(
    told >= 1 && told <= 1 + minutes,
    `the outage is logged at once, then each minute: ${told} in ${minutes}`
  )
  t.ok(messages.lastIndexOf('30 the database is back') > messages.indexOf(away))
})

t.test('down while nobody asks: it shows, creates are refused at once, and it ends by itself', async (t) => {
  const service = await startService(t, env)
  const away = async () => parseMetrics(await service.metrics()).value('plant_store_database_away')
  t.equal(await away(), 0)
  await server.down()
  await until('the outage shows', away)
  t.strictSame(await create(t, service), unavailable)
  await server.up()
  await until('it is over', away, is(0))
  t.strictSame(await create(t, service), success({ name: 'n' }))
})

t.test('down when the service starts to serve: 503, and 200 as soon as it is there', async (t) => {
  await server.down()
  const service = await startService(t, env)
  t.ok(isUnavailable(await create(t, service)))
  await server.up()
  await recovers(t, service)
})

t.test('hanging: 503 with an open outcome, and 200 when it continues', async (t) => {
  const service = await startService(t, env)
  await create(t, service)
  const pids = await service.rows(`select pid from pg_stat_activity where application_name = 'plant-store'`)
  const all = (signal: NodeJS.Signals) => {
    server.signal(signal)
    for (const { pid } of pids) {
      try {
        process.kill(pid, signal)
      } catch {
        // This backend has left meanwhile.
      }
    }
  }
  all('SIGSTOP')
  t.strictSame(await create(t, service), undecided)
  all('SIGCONT')
  await recovers(t, service)
})

t.test('a locked table: 503, and 200 when the lock is gone', async (t) => {
  const service = await startService(t, env)
  const holder = await lockTable(t, server.url)
  const responses = await Promise.all([create(t, service), create(t, service), create(t, service)])
  for (const response of responses) t.ok(isUnavailable(response))
  await holder.query('rollback')
  await recovers(t, service)
})

t.test('a locked id delays only its own caller', async (t) => {
  const service = await startService(t, patient)
  const locked = ++lastId
  const holder = await session(
    t,
    `begin; insert into plants values (${locked}, 'theirs', null, gen_random_uuid())`
  )
  const waiting = create(t, service, locked)
  const others = await Promise.all(Array.from({ length: 50 }, () => create(t, service)))
  for (const response of others) t.strictSame(response, success({ name: 'n' }))
  t.ok(isUnavailable(await waiting))
  const again = create(t, service, locked)
  await holder.query('commit')
  t.strictSame(await again, duplicate)
})

t.test('no connection left: 503, and 200 when there is one', async (t) => {
  const service = await startService(t, env)
  const guests = Array.from({ length: 25 }, () => new pg.Client(server.url))
  for (const guest of guests) guest.on('error', () => {})
  const filled = await Promise.allSettled(guests.map((guest) => guest.connect()))
  t.ok(filled.some(({ status }) => status === 'rejected'))
  t.ok(isUnavailable(await create(t, service)))
  await Promise.allSettled(guests.map((guest) => guest.end()))
  await recovers(t, service)
})

t.test('backends that are ended in mid-query: still 200', async (t) => {
  const service = await startService(t, { ...env, WRITE_DEADLINE_MS: String(scaled(20_000)) })
  const holder = await lockTable(t, server.url)
  const waiting = create(t, service)
  await untilBlocked(server.url)
  await holder.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'plant-store'`
  )
  await holder.query('rollback')
  t.strictSame(await waiting, success({ name: 'n' }))
})

t.test('read-only: 503, and 200 when it takes writes again', async (t) => {
  const service = await startService(t, env)
  const set = (value: string) => setServer(server.url, 'default_transaction_read_only', value)
  await set('on')
  t.ok(isUnavailable(await create(t, service)))
  await set('off')
  await recovers(t, service)
})

t.test('the connection dies in each attempt: 503 with an open outcome, and one row', async (t) => {
  const proxy = await startProxy(t, server.port)
  const url = new URL(server.url)
  url.port = String(proxy.port)
  const service = await startService(t, { ...env, DATABASE_URL: url.href })
  proxy.lose(1_000, /INSERT 0 |SELECT 1/)
  const id = ++lastId
  t.strictSame(await create(t, service, id), undecided)
  proxy.lose(-proxy.left())
  await recovers(t, service)
  t.strictSame(await service.rows('select name from plants where id = $1', [id]), [{ name: 'n' }])
})

/** A trigger that an operator may have added. */
const withTrigger = (t: Test, statements: string) => addTrigger(t, server.url, statements)

/** Creates in one turn of the event loop. */
const createTogether = (service: Service, ids: number[]) =>
  ids.map((id) => createIn(service, { id: BigInt(id), name: 'n' }))

t.test('a trigger that swallows the row: 500, never 200 or 409', async (t) => {
  const service = await startService(t, calm)
  await withTrigger(t, 'return null;')
  t.strictSame(await create(t, service), internal)
})

t.test('the table is gone: 500, and 200 when it is back', async (t) => {
  const service = await startService(t, calm)
  await session(t, 'alter table plants rename to gone')
  t.strictSame(await create(t, service), internal)
  const [line] = service.log().filter(({ level }) => level >= 50)
  t.match(line, { failure: 500, err: { name: 'Internal', cause: { code: '42P01', severity: 'ERROR' } } })
  await session(t, 'alter table gone rename to plants')
  await recovers(t, service)
})

t.test('an I/O error: 500, after one look-up', async (t) => {
  const service = await startService(t, calm)
  await withTrigger(t, `raise sqlstate '58030';`)
  t.strictSame(await create(t, service), internal)
  const { values } = parseMetrics(await service.metrics())
  t.strictSame(values('plant_store_batch_duration_seconds_count'), { unclear: 1, found: 1 })
})

t.test('a row that breaks each of its attempts does not cost its neighbours anything', async (t) => {
  const cases = [
    ['an internal error', `raise sqlstate 'XX001'`, /^Internal$/],
    ['an error in a class of its own', `raise sqlstate 'ZZ001'`, /^RefusedPlant$/],
    ['a table that its trigger does not find', 'perform 1 from nowhere', /^Internal$/],
    ['an error that says try again', `raise sqlstate '40001'`, /^(DeadlineExceeded|OutcomeUnknown)$/],
    ['no end', 'perform pg_sleep(600)', /^(DeadlineExceeded|OutcomeUnknown)$/]
  ] as const
  for (const [title, statement, own] of cases) {
    await t.test(title, async (t) => {
      const service = await startService(t, patient)
      const ids = Array.from({ length: 200 }, () => ++lastId)
      const bad = ids[100] as number
      await withTrigger(t, `if new.id = ${bad} then ${statement}; end if;`)
      const outcomes = await Promise.all(createTogether(service, ids))
      const [outcome] = outcomes.splice(100, 1)
      t.strictSame(new Set(outcomes), new Set(['created']))
      t.match(outcome, own)
      const stored = await service.rows('select id from plants where id = any ($1)', [ids])
      t.equal(stored.length, 199)
    })
  }
})

t.test('40 locked ids among 1,000: only their callers wait', async (t) => {
  const service = await startService(t, { ...env, WRITE_DEADLINE_MS: String(scaled(30_000)) })
  const ids = Array.from({ length: 1_000 }, () => ++lastId)
  const locked = new Set(ids.filter((_, index) => index % 25 === 0))
  const values = [...locked].map((id) => `(${id}, 'theirs', null, gen_random_uuid())`)
  const holder = await session(t, `begin; insert into plants values ${values.join(', ')}`)
  const responses = createTogether(service, ids)
  const of = (isLocked: boolean) =>
    responses.filter((_, index) => locked.has(ids[index] as number) === isLocked)
  t.strictSame(new Set(await Promise.all(of(false))), new Set(['created']))
  await holder.query('commit')
  t.strictSame(new Set(await Promise.all(of(true))), new Set(['DuplicatePlant']))
})

t.test('a synchronous standby that is away: never 200 before it is back', async (t) => {
  const service = await startService(t, env)
  const set = (value: string) => setServer(server.url, 'synchronous_standby_names', value)
  await create(t, service)
  await set('ghost')
  await untilCommitsWait(t)
  const keyed = { headers: { ...headers, 'idempotency-key': 'standby' } }
  const [first, second] = [++lastId, ++lastId]
  t.strictSame(await Promise.all([create(t, service, first, keyed), create(t, service, second)]), [
    undecided,
    undecided
  ])
  await set('')
  // The outage that began meanwhile may last until its next probe.
  const ask = () => service.post({ id: first, name: 'n' }, keyed)
  t.strictSame(await until('it succeeds', ask, ({ status }) => status === 200), replay({ name: 'n' }))
})

t.test('a commit that is cancelled while it waits for a standby: no 200 before that is back', async (t) => {
  const service = await startService(t, calm)
  const set = (value: string) => setServer(server.url, 'synchronous_standby_names', value)
  await set('ghost')
  t.teardown(() => set(''))
  await untilCommitsWait(t)
  let isTold = false
  const creating = create(t, service).finally(() => {
    isTold = true
  })
  const waiting = (what: string, text: string) =>
    until(
      'a statement waits for the standby',
      () =>
        query(
          server.url,
          `select ${what} from pg_stat_activity where wait_event = 'SyncRep' and query like $1`,
          [text]
        ),
      ({ length }) => isTold || length > 0
    )
  await waiting('pg_cancel_backend(pid)', '%insert into plants%')
  await waiting('pid', '%pg_logical_emit_message%')
  t.notOk(isTold)
  await set('')
  t.strictSame(await creating, success({ name: 'n' }))
})

t.test('a change of the table under way: still 200', async (t) => {
  const service = await startService(t, calm)
  const keyed = { headers: { ...headers, 'idempotency-key': 'plan' } }
  for (let count = 0; count < 3; count++)
    t.equal((await service.post({ id: ++lastId, name: 'n' }, keyed)).status, 200)
  await session(t, 'alter table plants alter column tag type varchar(50)')
  for (let count = 0; count < 3; count++)
    t.equal((await service.post({ id: ++lastId, name: 'n' }, keyed)).status, 200)
  await session(t, 'alter table plants alter column tag type text')
})
