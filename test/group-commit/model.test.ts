/** Random submissions, outcomes and times in virtual time: every row has one outcome, and each rule of group commit holds. */
import fc from 'fast-check'
import t from 'tap'
import { failureOf, takeTurns } from '../support/scripted-store.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { AttemptEnd, AttemptRow, Limits } from '../../src/group-commit/types.ts'
import { type FailureKind, NotCommitted } from '../../src/shared/write-failure.ts'

interface Plant {
  id: bigint
  bytes: number
  call: number
  writeId: string
  content: string
  /** A write id that another call may have too, so that its first attempt must know it. */
  keyed: boolean
}

interface Call {
  plant: Plant
  at: number
  full: boolean
  accepted: boolean
  lastSignOfLife: number
  outcome?: string
  outcomes: number
  firstAttempt?: number
}

/** How an attempt goes: its time, and whether the connection breaks before or after the commit. */
interface Weather {
  ms: number
  kind:
    | 'well'
    | 'before'
    | 'after'
    | 'hangBefore'
    | 'hangAfter'
    | 'slow'
    | 'full'
    | 'broken'
    | 'gone'
    | 'blind'
  missing: boolean
}

const cancelMs = 3
const conflict = new Error('conflict')
const duplicate = new Error('duplicate')

const limits: fc.Arbitrary<Limits> = fc.record({
  lanes: fc.integer({ min: 1, max: 3 }),
  batchRows: fc.integer({ min: 1, max: 8 }),
  batchBytes: fc.integer({ min: 1, max: 40 }),
  deadlineMs: fc.integer({ min: 50, max: 1000 })
})

const arrival = fc.record({
  endsTurn: fc.boolean(),
  waitMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(10), fc.nat(700)),
  id: fc.oneof(fc.bigInt({ min: 0n, max: 3n }), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  bytes: fc.integer({ min: 1, max: 20 }),
  key: fc.option(fc.constantFrom('k', 'l')),
  content: fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom('fern', 'moss') },
    { weight: 2, arbitrary: fc.constantFrom('bad', 'once') },
    { weight: 1, arbitrary: fc.constantFrom('endless', 'broken', 'busy') }
  )
})

const weather: fc.Arbitrary<Weather> = fc.record({
  ms: fc.oneof(fc.nat(5), fc.nat(200)),
  kind: fc.oneof(
    { weight: 6, arbitrary: fc.constant('well' as const) },
    { weight: 4, arbitrary: fc.constantFrom('before', 'after', 'slow') },
    { weight: 1, arbitrary: fc.constantFrom('hangBefore', 'hangAfter') },
    { weight: 1, arbitrary: fc.constantFrom('full', 'broken', 'gone', 'blind') }
  ),
  missing: fc.nat(9).map((dice) => dice === 0)
})

/** An id that another transaction holds for a while. */
const lock = fc.record({ id: fc.bigInt({ min: 0n, max: 3n }), from: fc.nat(1000), ms: fc.nat(3000) })

const scenario = fc.record({
  limits,
  arrivals: fc.array(arrival, { minLength: 1, maxLength: 60, size: 'max' }),
  weathers: fc.array(weather, { maxLength: 40, size: 'max' }),
  outage: fc.option(fc.record({ from: fc.nat(300), ms: fc.integer({ min: 500, max: 6000 }) }), { freq: 2 }),
  locks: fc.array(lock, { maxLength: 3 }),
  random: fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 1, maxLength: 5 })
})

type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what)
}

const isOpen = ({ accepted, outcome }: Call) => accepted && outcome === undefined

/** Plays a scenario, with the rules of each moment checked as it goes, and returns the calls and the table. */
async function play({ limits, arrivals, weathers, outage, locks, random }: Scenario) {
  let dice = 0
  const clock = createVirtualClock(() => random[dice++ % random.length] as number)
  const table = new Map<bigint, Plant>()
  const calls: Call[] = []
  const inFlight = new Set<bigint>()
  /** Calls whose outcomes are on their way to their callers. */
  const dueNow = new Set<Call>()
  let attempts = 0
  let running = 0
  /** When attempts have last succeeded, and failed, if only in part: then nothing may be tried for a while. */
  let succeededAt = 0
  let failedAt = Number.NEGATIVE_INFINITY
  let violation: unknown
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  const troubled = new Set<bigint>()
  const callOf = ({ item }: AttemptRow<Plant>) => calls[item.call] as Call
  const isAway = () => outage !== null && clock.now() >= outage.from && clock.now() < outage.from + outage.ms
  const isLocked = ({ item }: AttemptRow<Plant>) =>
    locks.some(({ id, from, ms }) => id === item.id && clock.now() >= from && clock.now() < from + ms)

  /** The look-up, as PostgreSQL would run it. */
  function find({ item }: AttemptRow<Plant>) {
    const there = table.get(item.id)
    if (!there) return undefined
    if (there.writeId !== item.writeId) return duplicate
    return there.content === item.content ? 'created' : conflict
  }

  /** The insert. */
  function insert({ item }: AttemptRow<Plant>) {
    if (table.has(item.id)) return undefined
    table.set(item.id, item)
    return 'created'
  }

  /** What keeps the rows from being written, and is not a fault of their data. */
  function meet(rows: readonly AttemptRow<Plant>[], kind: Weather['kind']): FailureKind | undefined {
    const has = (content: string) => rows.some(({ item }) => item.content === content)
    if (rows.some(isLocked) || kind === 'slow' || has('endless')) return 'busy'
    if (kind === 'gone') return 'gone'
    if (kind === 'broken' || has('broken')) return 'broken'
    return kind === 'full' || has('busy') ? 'chance' : undefined
  }

  function begin(rows: readonly AttemptRow<Plant>[], isFind: boolean) {
    running++
    check(running <= limits.lanes, 'more attempts than lanes')
    check(rows.length > 0 && rows.length <= limits.batchRows, 'a batch of too many rows')
    const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
    check(isFind || rows.length === 1 || bytes <= limits.batchBytes, 'a batch of too many bytes')
    for (const [index, row] of rows.entries()) {
      const { item } = row
      const before = rows[index - 1]
      check(!before || before.item.id < item.id, 'a batch is not sorted, or has an id twice')
      check(!inFlight.has(item.id), 'an id is in flight twice')
      inFlight.add(item.id)
      const call = callOf(row)
      check(call.outcome === undefined, 'a row is tried after its outcome')
      call.firstAttempt ??= clock.now()
      for (const other of calls.slice(0, item.call)) {
        if (other.plant.id === item.id && isOpen(other)) dueNow.add(other)
      }
    }
  }

  function end(rows: readonly AttemptRow<Plant>[]) {
    running--
    for (const row of rows) {
      inFlight.delete(row.item.id)
    }
  }

  async function attempt(
    rows: readonly AttemptRow<Plant>[],
    isFind: boolean,
    signal: AbortSignal
  ): Promise<AttemptEnd<string>> {
    const fail = (kind: FailureKind) => {
      failedAt = clock.now()
      for (const { item } of rows) troubled.add(item.id)
      return { failure: failureOf(kind) }
    }
    try {
      begin(rows, isFind)
    } catch (error) {
      violation ??= error
    }
    const { ms, kind, missing: misses } = weathers[attempts++] ?? { ms: 1, kind: 'well', missing: false }
    const isEndless = !isFind && rows.some(({ item }) => item.content === 'endless')
    await new Promise<void>((resolve) => {
      // What never ends is cut off, unless the connection hangs as well.
      if (!kind.startsWith('hang')) clock.after(isEndless ? limits.deadlineMs / 3 : ms, resolve)
      signal.addEventListener('abort', () => clock.after(cancelMs, resolve))
    })
    end(rows)
    if (kind === 'before' || kind === 'hangBefore' || isAway()) return fail('away')
    const hasResult = !kind.endsWith('fter')
    if (hasResult && kind !== 'blind' && !signal.aborted) lastSignOfLife = clock.now()
    const met = isFind ? undefined : meet(rows, kind)
    if (met) return fail(met)
    if (isFind && kind === 'blind') return fail('lost')
    // A trigger may refuse a row because of what is there, be it the row itself.
    const isRefused = ({ item }: AttemptRow<Plant>) =>
      item.content === 'bad' || (item.content === 'once' && table.has(item.id))
    if (!isFind && rows.some(isRefused)) return fail('refused')
    const isMissed = !isFind && misses
    const results = isFind ? rows.map(find) : isMissed ? rows.map(() => undefined) : rows.map(insert)
    if (!hasResult) return fail('lost')
    for (const [index, { item }] of rows.entries()) if (!results[index]) troubled.add(item.id)
    if (results.some((result) => result !== undefined)) succeededAt = clock.now()
    return { results }
  }

  const answer = async () => {
    await new Promise<void>((resolve) => void clock.after(2, resolve))
    if (isAway()) throw new Error('databaseDown')
    lastSignOfLife = clock.now()
  }

  const group = new GroupCommit<Plant, string>(
    {
      insert: (rows, _, signal) => attempt(rows, false, signal),
      find: (rows, signal) => attempt(rows, true, signal),
      commitNothing: answer,
      probe: answer
    },
    limits,
    { clock, policy: takeTurns }
  )

  function submit({ id, bytes, key, content }: Scenario['arrivals'][number]) {
    const number = calls.length
    const plant = { id, bytes, call: number, writeId: key ?? `call ${number}`, content, keyed: key !== null }
    const open = calls.filter(isOpen)
    const { expectedMs } = group.load
    const full = expectedMs > limits.deadlineMs / 2
    const call: Call = { plant, at: clock.now(), full, lastSignOfLife, accepted: false, outcomes: 0 }
    calls.push(call)
    const outcome = (text: string) => {
      call.outcome = text
      call.outcomes++
    }
    group.submit(plant, outcome, (error) =>
      outcome(error instanceof NotCommitted ? error.reason : (error as Error).message)
    )
    call.accepted = group.load.rows > open.length
  }

  /** What holds whenever nothing is left to do at a moment. */
  function checkMoment() {
    if (violation) throw violation
    for (const { outcome } of dueNow) check(outcome !== undefined, 'a row overtakes its id')
    dueNow.clear()
    const open = calls.filter(isOpen)
    check(group.load.rows === open.length, 'the rows are miscounted')
    check(
      group.load.bytes === open.reduce((sum, { plant }) => sum + plant.bytes, 0),
      'the bytes are miscounted'
    )
    check(group.load.busyLanes <= limits.lanes && group.load.busyLanes >= running, 'the lanes are miscounted')
    for (const { at } of open) check(clock.now() < at + limits.deadlineMs, 'a row waits beyond its deadline')
    if (group.load.busyLanes === limits.lanes || succeededAt <= failedAt) return
    for (const call of open) {
      const { id } = call.plant
      if (call.firstAttempt !== undefined || troubled.has(id) || inFlight.has(id)) continue
      const first = open.find(({ plant }) => plant.id === id)
      check(first !== call, 'a row waits while a lane is free')
    }
  }

  async function moveTo(at: number) {
    await clock.settle()
    checkMoment()
    while ((clock.nextAt ?? Number.POSITIVE_INFINITY) <= at) {
      await clock.moveToNext()
      checkMoment()
    }
    await clock.moveTo(at)
  }

  for (const arrival of arrivals) {
    if (arrival.waitMs > 0) await moveTo(clock.now() + arrival.waitMs)
    submit(arrival)
    if (arrival.endsTurn) clock.endTurn()
  }
  let closed = false
  void group.close().then(() => (closed = true))
  await moveTo(clock.now() + limits.deadlineMs + 2 * cancelMs)
  check(closed, 'close waits beyond the last deadline')
  await moveTo(clock.now() + 10_000)
  check(clock.pending === 0, 'a timer is left')
  check(running === 0 && group.load.rows === 0 && group.load.busyLanes === 0, 'something is left')
  return { calls, table }
}

/** What each outcome promises. */
function checkOutcome(
  { plant, at, full, outcome, outcomes, firstAttempt, lastSignOfLife }: Call,
  table: Map<bigint, Plant>,
  { limits }: Scenario
) {
  const there = table.get(plant.id)
  const mine = there?.writeId === plant.writeId
  check(outcomes === 1, `a call has ${outcomes} outcomes`)
  const tried = firstAttempt !== undefined
  if (outcome === 'full') check(full && !tried, 'refused as full')
  else if (outcome === 'databaseDown')
    check(!tried && at - lastSignOfLife >= limits.deadlineMs, 'refused as away')
  else if (outcome === 'created')
    check(mine && there.content === plant.content, 'acknowledged and not stored')
  else if (outcome === 'duplicate') check(there !== undefined && !mine, 'its own row is called a duplicate')
  else if (outcome === 'conflict') check(mine && there.content !== plant.content, 'no conflict')
  else if (outcome === 'refused')
    check(['bad', 'once'].includes(plant.content) && there?.call !== plant.call, 'refused and stored')
  else if (outcome === 'expired' || outcome === 'missing' || outcome === 'broken' || outcome === 'gone')
    check(there?.call !== plant.call, `${outcome} and stored`)
  else check(outcome === 'unknown' && tried, `an unexpected outcome: ${outcome}`)
  if (outcome !== 'full' && outcome !== 'databaseDown') check(!full, 'the queue took too much')
  if (['bad', 'endless', 'broken', 'busy'].includes(plant.content))
    check(!mine || there.call !== plant.call, 'a bad row is stored')
}

t.test('any arrivals, failures, locks and deadlines: each call gets its one right outcome', async (t) => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      const { calls, table } = await play(given)
      for (const call of calls) {
        checkOutcome(call, table, given)
        seen.set(call.outcome as string, (seen.get(call.outcome as string) ?? 0) + 1)
      }
    }),
    { numRuns: 1000 }
  )
  t.comment(JSON.stringify(Object.fromEntries(seen)))
  for (const outcome of [
    'created',
    'duplicate',
    'conflict',
    'refused',
    'expired',
    'unknown',
    'broken',
    'gone',
    'full',
    'databaseDown'
  ]) {
    t.ok(seen.get(outcome), `some calls end with: ${outcome}`)
  }
})
