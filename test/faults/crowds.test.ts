/** Crowds of rows that are refused, locked or endless, and stalls, on a real PostgreSQL: no innocent create fails or waits long. */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  addTrigger,
  createRole,
  lockTable,
  openSession,
  query,
  setServer
} from '../../harness/postgres/database.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { createIn, type Service, startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'

const server = await startServer(t)
const deadlineMs = scaled(10_000)
/** A second of a machine that is not slow, in ms; three at most. */
const secondMs = Math.min(3_000, scaled(1_000))
/** The roles that policies hold for. */
const role = await createRole(t, server.url, 'secret')
const url = new URL(server.url)
url.username = role.name
url.password = 'secret'
const env = { DATABASE_URL: url.href, WRITE_DEADLINE_MS: String(deadlineMs) }
let lastId = 0

interface Crowd {
  bad: number
  good: number
  /** Both are one caller. */
  isOne?: boolean
  /** The id of a bad client's plants, if they have always the same. */
  idOf?: (client: number) => bigint
  /** How long clients go on, in ms. */
  ms: number
  /** How long a good client waits between two plants, and after the bad ones have begun, in ms. */
  pauseMs?: number
  lateMs?: number
  /** Ends what keeps bad plants waiting. */
  release?: () => Promise<unknown>
}

/** Lets clients create plants one after the other, bad ones with the name `bad`; returns what became of them. */
async function run(
  service: Service,
  { bad, good, isOne = false, idOf, ms, pauseMs = 0, lateMs = 0, release }: Crowd
) {
  const outcomes = { good: new Map<string, number>(), bad: new Map<string, number>() }
  const waits: number[] = []
  /** When plants were created, by the second. */
  const created = new Set<number>()
  const began = performance.now()
  const end = began + ms
  async function repeat(who: 'good' | 'bad', client: number) {
    while (performance.now() < end) {
      const at = performance.now()
      const id = (who === 'bad' && idOf?.(client)) || BigInt(++lastId)
      const outcome = await createIn(service, { id, name: who }, isOne ? 'one' : who)
      outcomes[who].set(outcome, (outcomes[who].get(outcome) ?? 0) + 1)
      if (who === 'bad') continue
      waits.push(performance.now() - at)
      if (outcome === 'created') created.add(Math.floor((performance.now() - began) / secondMs))
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }
  const start = (who: 'good' | 'bad', clients: number) =>
    Promise.all(Array.from({ length: clients }, (_, client) => repeat(who, client)))
  const badEnd = start('bad', bad)
  await sleep(lateMs)
  await start('good', good)
  await release?.()
  await badEnd
  waits.sort((a, b) => a - b)
  const at = (part: number) => Math.round(waits[Math.floor(waits.length * part)] ?? 0)
  return { good: outcomes.good, bad: outcomes.bad, p99: at(0.99), longest: at(1 - 1 / waits.length), created }
}

/** A trigger for plants that are named `bad`, until the test ends. */
const withTrigger = (t: Test, statement: string) =>
  addTrigger(t, server.url, `if new.name = 'bad' then ${statement}; end if;`)

async function withPolicy(t: Test) {
  await query(server.url, 'alter table plants enable row level security')
  await query(server.url, 'create policy may_read on plants for select using (true)')
  await query(server.url, `create policy may_insert on plants for insert with check (name <> 'bad')`)
  t.teardown(async () => {
    for (const name of ['may_read', 'may_insert']) await query(server.url, `drop policy ${name} on plants`)
    await query(server.url, 'alter table plants disable row level security')
  })
}

const isOnly = (counts: Map<string, number>, outcome: string) => counts.size === 1 && counts.has(outcome)

t.test('beside a crowd of plants that are refused, none that is good fails', async (t) => {
  const cases = [
    ['a policy', withPolicy, 'RefusedPlant', 64, 4],
    ['a policy, more clients', withPolicy, 'RefusedPlant', 256, 6],
    [
      'a trigger that lacks a right',
      (t: Test) => withTrigger(t, `raise sqlstate '42501'`),
      'Internal',
      64,
      8
    ],
    ['a damaged page', (t: Test) => withTrigger(t, `raise sqlstate 'XX001'`), 'Internal', 256, 64]
  ] as const
  for (const [commitMs, limitMs] of [
    [0, 250],
    [10, 500]
  ] as const) {
    await setServer(server.url, 'commit_siblings', '0')
    await setServer(server.url, 'commit_delay', String(commitMs * 1_000))
    for (const [title, begin, outcome, bad, good] of cases)
      for (const isOne of [false, true])
        await t.test(`${title}, ${isOne ? 'one caller, ' : ''}commits of ${commitMs} ms more`, async (t) => {
          await begin(t)
          const service = await startService(t, env)
          const result = await run(service, { bad, good, isOne, ms: 3_000 })
          t.ok(isOnly(result.good, 'created'), JSON.stringify([...result.good]))
          t.ok(isOnly(result.bad, outcome), JSON.stringify([...result.bad]))
          t.ok(result.p99 < scaled(limitMs), `99 % wait at most ${result.p99} ms`)
        })
  }
  await setServer(server.url, 'commit_delay', '0')
})

t.test('beside ids that an open transaction holds, none that is free fails or waits long', async (t) => {
  for (const [bad, good] of [
    [64, 4],
    [512, 16],
    [2_000, 4]
  ] as const)
    await t.test(`${bad} clients that want them, and ${good} others`, async (t) => {
      const service = await startService(t, env)
      const first = lastId + 1
      lastId += bad
      const holder = await openSession(
        t,
        server.url,
        `begin; insert into plants select i, 'theirs', null, gen_random_uuid() from generate_series(${first}, ${lastId}) i`
      )
      const result = await run(service, {
        bad,
        good,
        idOf: (client) => BigInt(first + client),
        ms: 3_000,
        // Until a good one succeeds, only failures are there.
        lateMs: 100,
        release: () => holder.query('rollback')
      })
      t.ok(isOnly(result.good, 'created'), JSON.stringify([...result.good]))
      t.ok(result.longest < scaled(1_000), `the longest wait is ${result.longest} ms`)
    })
})

t.test('beside endless plants, there is no second without a create after the first', async (t) => {
  for (const bad of [8, 64])
    await t.test(`${bad} of them`, async (t) => {
      await query(server.url, 'create table gate as select 1')
      await query(server.url, `grant select on gate to ${role.name}`)
      t.teardown(() => query(server.url, 'drop table gate'))
      await withTrigger(t, 'while exists (select from gate) loop perform pg_sleep(0.01); end loop')
      const service = await startService(t, env)
      const seconds = 6
      const release = () => query(server.url, 'delete from gate')
      const result = await run(service, {
        bad,
        good: 16,
        isOne: true,
        ms: seconds * secondMs,
        pauseMs: 10,
        release
      })
      t.ok(isOnly(result.good, 'created'), JSON.stringify([...result.good]))
      for (let second = 1; second < seconds; second++) t.ok(result.created.has(second), `in second ${second}`)
    })
})

const sessions = `select pid from pg_stat_activity where application_name = 'plant-store' order by pid`

/** Creates plants at a rate until the function is called that it returns, which returns their outcomes. */
function createSteadily(service: Service, perSecond: number) {
  const outcomes: Promise<string>[] = []
  const began = performance.now()
  const timer = setInterval(() => {
    const due = ((performance.now() - began) / 1_000) * perSecond
    while (outcomes.length < due)
      outcomes.push(createIn(service, { id: BigInt(++lastId), name: 'good' }, 'caller'))
  }, 5)
  return async () => {
    clearInterval(timer)
    return Map.groupBy(await Promise.all(outcomes), (outcome) => outcome)
  }
}

t.test('a stall of two seconds: nothing fails, is cancelled, or opens more connections', async (t) => {
  const service = await startService(t, env)
  await run(service, { bad: 0, good: 64, ms: 1_000 })
  const before = await query(server.url, sessions)
  const end = createSteadily(service, 200)
  await sleep(200)
  // Nothing else waits for a standby that is not there.
  await setServer(server.url, 'synchronous_standby_names', 'ghost')
  await sleep(2_000)
  const during = await query(server.url, sessions)
  await setServer(server.url, 'synchronous_standby_names', '')
  const outcomes = await end()
  t.strictSame([...outcomes.keys()], ['created'])
  const pids = new Set(during.map(({ pid }) => pid))
  for (const { pid } of before) t.ok(pids.has(pid), 'each session lives on')
  t.ok(during.length <= 3 + 1, `${during.length} sessions: the lanes', and one for the probe`)
  const { value } = parseMetrics(await service.metrics())
  t.equal(value('plant_store_pool_resets_total'), 0)
})

t.test('a table that is locked for 8 s: nothing fails, and the backlog of 8,000 is soon gone', async (t) => {
  const service = await startService(t, { ...env, WRITE_QUEUE_ROWS: '20000' })
  const holder = await lockTable(t, server.url)
  const end = createSteadily(service, 1_000)
  await sleep(8_000)
  await holder.query('rollback')
  const began = performance.now()
  const outcomes = await end()
  t.strictSame([...outcomes.keys()], ['created'])
  const ms = Math.round(performance.now() - began)
  t.ok(ms < scaled(2_000), `it is gone after ${ms} ms`)
})

t.test('a full disk for five seconds: few statements fail, and all is stored afterwards', async (t) => {
  const service = await startService(t, env)
  // With the context of a trigger, so that each row could be at fault.
  const repair = await addTrigger(t, server.url, `raise sqlstate '53100';`)
  const end = createSteadily(service, 200)
  const began = performance.now()
  await sleep(5_000)
  const { values } = parseMetrics(await service.metrics())
  const seconds = (performance.now() - began) / 1_000
  const { unclear = 0, database = 0 } = values('plant_store_batch_duration_seconds_count')
  await repair()
  const outcomes = await end()
  t.strictSame([...outcomes.keys()], ['created'])
  t.ok(unclear + database <= 250 * seconds, `${unclear + database} statements have failed`)
})

t.test('an insert that a rule of the table excludes: 500, and no connection is replaced', async (t) => {
  const service = await startService(t, env)
  await query(server.url, 'create rule audit as on insert to plants do also select 1')
  t.teardown(() => query(server.url, 'drop rule audit on plants'))
  const outcomes = await Promise.all(
    [1, 2, 3].map(() => createIn(service, { id: BigInt(++lastId), name: 'n' }, 'caller'))
  )
  t.strictSame(outcomes, ['Internal', 'Internal', 'Internal'])
  t.equal(parseMetrics(await service.metrics()).value('plant_store_pool_resets_total'), 0)
})
