/**
 * One randomized, seeded test of group commit, in virtual time over a scripted store. It judges
 * outcomes only, and shrinks what fails. MODEL_SEED repeats a run, MODEL_RUNS makes more scenarios.
 */
import fc from 'fast-check'
import t from 'tap'
import { Failure } from '../../src/failures.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type {
  AttemptFailure,
  FailureKind,
  Limits,
  RowResults,
  Store
} from '../../src/group-commit/types.ts'
import { installVirtualTime } from '../support/virtual-time.ts'

interface Plant {
  id: bigint
  bytes: number
  /** The number of its call. */
  call: number
  writeId: string
  content: string
}

interface Call {
  plant: Plant
  at: number
  /** When it came: how many had no outcome, and when the database had last shown that it serves. */
  before: number
  lastSignOfLife: number
  outcomes: string[]
  endedAt: number
  wasTried: boolean
}

/**
 * How an attempt goes: its connection may break before or after the commit, which may come late,
 * too; or it fails.
 */
interface Weather {
  ms: number
  kind:
    | ('well' | 'before' | 'after' | 'late' | 'hangBefore' | 'hangAfter')
    | ('slow' | 'full' | 'serverFault' | 'schemaMismatch' | 'blind')
  /** A trigger leaves its rows out. */
  missing: boolean
}

/** How long an attempt goes on after it was cut off. */
const cancelMs = 3
/** How late a close may notice that nothing is left. */
const closeMs = 10
/** How late a commit can be after its connection has broken. */
const lateMs = 200
/** The contents of rows without a fault; any other says what is wrong. */
const good = ['fern', 'moss']
const conflict = new Error('conflict')
const duplicate = new Error('duplicate')

const limits: fc.Arbitrary<Limits> = fc.record({
  lanes: fc.integer({ min: 1, max: 3 }),
  batchRows: fc.integer({ min: 1, max: 8 }),
  batchBytes: fc.integer({ min: 1, max: 40 }),
  deadlineMs: fc.integer({ min: 50, max: 1000 })
})

const id = fc.oneof(
  fc.bigInt({ min: 0n, max: 3n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
)

const arrivalOf = (content: fc.Arbitrary<string>) =>
  fc.record({
    endsTurn: fc.boolean(),
    waitMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(10), fc.nat(700)),
    id,
    bytes: fc.integer({ min: 1, max: 20 }),
    key: fc.option(fc.constantFrom('k', 'l')),
    content
  })

const anyContent = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...good) },
  { weight: 2, arbitrary: fc.constantFrom('bad', 'once') },
  { weight: 1, arbitrary: fc.constantFrom('endless', 'serverFault', 'retryable', 'torn') }
)

const weather: fc.Arbitrary<Weather> = fc.record({
  ms: fc.oneof(fc.nat(5), fc.nat(200)),
  kind: fc.oneof(
    { weight: 6, arbitrary: fc.constant('well' as const) },
    { weight: 4, arbitrary: fc.constantFrom('before', 'after', 'late', 'slow') },
    { weight: 1, arbitrary: fc.constantFrom('hangBefore', 'hangAfter') },
    { weight: 1, arbitrary: fc.constantFrom('full', 'serverFault', 'schemaMismatch', 'blind') }
  ),
  missing: fc.nat(9).map((dice) => dice === 0)
})

/** An id that another transaction holds for a while. */
const lock = fc.record({
  id: fc.bigInt({ min: 0n, max: 3n }),
  from: fc.nat(1000),
  ms: fc.nat(3000)
})
const outage = fc.record({ from: fc.nat(300), ms: fc.integer({ min: 500, max: 6000 }) })
const random = fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), {
  minLength: 1,
  maxLength: 5
})

const anything = fc.record({
  isCalm: fc.constant(false),
  limits,
  arrivals: fc.array(arrivalOf(anyContent), { minLength: 1, maxLength: 60, size: 'max' }),
  weathers: fc.array(weather, { maxLength: 40, size: 'max' }),
  outage: fc.option(outage, { freq: 2 }),
  locks: fc.array(lock, { maxLength: 3 }),
  random
})

const calmWeather: fc.Arbitrary<Weather> = fc.record({
  ms: fc.nat(5),
  kind: fc.constantFrom(
    'well',
    'before',
    'after',
    'late',
    'slow',
    'full',
    'blind',
    'hangBefore',
    'hangAfter'
  ),
  missing: fc.constant(false)
})

const calmContent = fc.constantFrom(
  ...good,
  ...good,
  'bad',
  'serverFault',
  'retryable',
  'endless',
  'torn'
)

/**
 * A database that soon serves, and a deadline that is long enough: whoever is not at fault is
 * stored.
 */
const calm = fc.record({
  isCalm: fc.constant(true),
  limits: limits.map((some) => ({ ...some, deadlineMs: 10_000 })),
  arrivals: fc.array(arrivalOf(calmContent), { minLength: 1, maxLength: 30, size: 'max' }),
  weathers: fc.array(calmWeather, { maxLength: 3 }),
  outage: fc.constant(null),
  locks: fc.array(lock, { maxLength: 0 }),
  random
})

const scenario = fc.oneof({ weight: 4, arbitrary: anything }, { weight: 1, arbitrary: calm })

type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never
type Rows = Parameters<Store<Plant, string>['insert']>[0]

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what)
}

/**
 * A table that is written as the scenario says. `onAttempt` gets the rows of each insert that
 * begins.
 */
function createStore(
  { weathers, outage, locks, limits }: Scenario,
  onAttempt: (row: Plant) => void
) {
  const table = new Map<bigint, Plant>()
  let attempts = 0
  let lastSignOfLife = Number.NEGATIVE_INFINITY
  const isNow = ({ from, ms }: { from: number; ms: number }) =>
    performance.now() >= from && performance.now() < from + ms
  const isUnavailable = () => outage !== null && isNow(outage)
  const isLocked = ({ id }: Plant) => locks.some((lock) => lock.id === id && isNow(lock))

  function find(plant: Plant) {
    const there = table.get(plant.id)
    if (!there) return undefined
    if (there.writeId !== plant.writeId) return duplicate
    return there.content === plant.content ? 'created' : conflict
  }

  function insert(plant: Plant) {
    if (table.has(plant.id) || plant.content === 'torn') return undefined
    table.set(plant.id, plant)
    return 'created'
  }

  /** Why the rows cannot be written. */
  function meet(plants: Plant[], kind: Weather['kind']): FailureKind | undefined {
    const has = (content: string) => plants.some((plant) => plant.content === content)
    if (plants.some(isLocked) || kind === 'slow' || has('endless')) return 'retryable'
    if (kind === 'schemaMismatch') return 'schemaMismatch'
    if (kind === 'serverFault' || has('serverFault')) return 'serverFault'
    if (kind === 'full' || has('retryable')) return 'retryable'
    // A trigger may refuse a row because of what is there, be it the row itself.
    return has('bad') || plants.some(({ content, id }) => content === 'once' && table.has(id))
      ? 'refused'
      : undefined
  }

  /** The result of a row of an attempt with savepoints. */
  function insertOne(plant: Plant): RowResults<string>[number] {
    const met = meet([plant], 'well')
    if (met === undefined) return insert(plant)
    return { kind: plant.content === 'endless' ? 'slow' : met, error: new Error(met) }
  }

  /** Inserts rows one by one, up to one that takes too long, or as many as there is time for. */
  function insertEach(plants: Plant[], most: number) {
    const last = plants.findIndex(({ content }) => content === 'endless')
    const tried = Math.min(last < 0 ? plants.length : last + 1, most)
    return plants.map((plant, index) =>
      index < tried ? insertOne(plant) : { kind: 'untried' as const }
    )
  }

  async function attempt(
    mode: 'insert' | 'insertEach' | 'find',
    rows: Rows,
    signal: AbortSignal
  ): Promise<RowResults<string> | AttemptFailure> {
    const isFind = mode === 'find'
    const fail = (kind: FailureKind) => ({ kind, error: new Error(kind) })
    const plants = rows.map(({ item }) => item)
    if (!isFind) plants.forEach(onAttempt)
    const { ms, kind, missing } = weathers[attempts++] ?? { ms: 1, kind: 'well', missing: false }
    const isEndless = mode === 'insert' && plants.some(({ content }) => content === 'endless')
    await new Promise<void>((resolve) => {
      // What never ends is ended by the store's own limit, or cut off, unless the connection hangs
      // as well.
      setTimeout(resolve, isEndless || kind.startsWith('hang') ? limits.deadlineMs / 3 : ms)
      signal.addEventListener('abort', () => setTimeout(resolve, cancelMs))
    })
    if (kind === 'before' || kind === 'hangBefore' || isUnavailable()) return fail('unavailable')
    if (kind === 'late' && !isFind && !meet(plants, kind))
      setTimeout(() => plants.map(insert), lateMs)
    if (kind === 'late') return fail('unknown')
    const hasResult = !kind.endsWith('fter')
    if (hasResult && kind !== 'blind' && !signal.aborted) lastSignOfLife = performance.now()
    const met = isFind ? undefined : meet(mode === 'insert' ? plants : [], kind)
    if (met) return fail(met)
    if (isFind && kind === 'blind') return fail('unknown')
    // The row that has its id is on a damaged page.
    if (isFind && plants.some(({ content }) => content === 'torn')) return fail('serverFault')
    const absent = () => plants.map(() => undefined)
    const results = isFind
      ? plants.map(find)
      : missing
        ? absent()
        : mode === 'insert'
          ? plants.map(insert)
          : insertEach(plants, ms > 100 ? 1 : plants.length)
    return hasResult ? results : fail('unknown')
  }

  async function probe(): Promise<AttemptFailure | undefined> {
    await new Promise((resolve) => setTimeout(resolve, 2))
    if (isUnavailable()) return { kind: 'unavailable', error: new Error('unavailable') }
    lastSignOfLife = performance.now()
    return undefined
  }

  return {
    table,
    lastSignOfLife: () => lastSignOfLife,
    insert: (rows: Rows, _: number, signal: AbortSignal) => attempt('insert', rows, signal),
    insertEach: (rows: Rows, _: number, signal: AbortSignal) => attempt('insertEach', rows, signal),
    find: (rows: Rows, _: number, signal: AbortSignal) => attempt('find', rows, signal),
    probe
  }
}

/** Plays a scenario to its end, and returns the calls and the table. */
async function play(given: Scenario, { moveTo, endTurn }: ReturnType<typeof installVirtualTime>) {
  const calls: Call[] = []
  const store = createStore(given, ({ call }) => {
    ;(calls[call] as Call).wasTried = true
  })
  const group = new GroupCommit<Plant, string>(store, given.limits, {
    onAttempt() {},
    onOutage() {}
  })

  function submit({ id, bytes, key, content }: Scenario['arrivals'][number]) {
    const number = calls.length
    const plant = { id, bytes, call: number, writeId: key ?? `call ${number}`, content }
    const before = calls.filter(({ outcomes }) => outcomes.length === 0).length
    const now = {
      at: performance.now(),
      lastSignOfLife: store.lastSignOfLife(),
      endedAt: Number.POSITIVE_INFINITY
    }
    const call: Call = { ...now, plant, before, outcomes: [], wasTried: false }
    calls.push(call)
    const end = (outcome: string | Error) => {
      const told = outcome instanceof Failure ? outcome.name : outcome
      call.outcomes.push(told instanceof Error ? told.message : told)
      call.endedAt = performance.now()
    }
    const refusal = group.refusal(1)
    if (refusal) end(refusal)
    else group.submit(plant).then(end, end)
  }

  for (const arrival of given.arrivals) {
    if (arrival.waitMs > 0) await moveTo(performance.now() + arrival.waitMs)
    submit(arrival)
    if (arrival.endsTurn) endTurn()
  }
  const closed = group.close().then(() => true)
  await moveTo(performance.now() + given.limits.deadlineMs + 2 * cancelMs + closeMs)
  check(await Promise.race([closed, Promise.resolve(false)]), 'it closes after the last deadline')
  await moveTo(performance.now() + 10_000)
  return { calls, table: store.table }
}

/** What each outcome promises of the table at the end. */
function judge(
  call: Call,
  calls: Call[],
  table: Map<bigint, Plant>,
  { limits, isCalm, outage }: Scenario
) {
  const { plant, at, outcomes, endedAt, wasTried } = call
  const there = table.get(plant.id)
  const isSame = there?.writeId === plant.writeId
  const isStored = there?.call === plant.call
  // Who has the id of such a row waits behind it.
  const isBehind = calls.some(
    ({ plant: { id, content } }) =>
      id === plant.id && ['retryable', 'endless', 'torn'].includes(content)
  )
  const isAtFault = isBehind || !['fern', 'moss'].includes(plant.content)
  const [outcome] = outcomes
  check(outcome !== undefined && outcomes.length === 1, `a call has ${outcomes.length} outcomes`)
  check(endedAt <= at + limits.deadlineMs, 'its outcome comes after the deadline')
  if (outcome === 'created')
    check(isSame && there.content === plant.content, 'created, and not stored')
  else if (outcome === 'duplicate')
    check(there !== undefined && !isSame, 'its own row is a duplicate')
  else if (outcome === 'conflict') check(isSame && there.content !== plant.content, 'no conflict')
  else if (outcome === 'OutcomeUnknown') check(wasTried, 'unknown, and never tried')
  else check(!isStored, `${outcome}, and stored`)
  if (outcome === 'refused')
    check(['bad', 'once'].includes(plant.content), 'refused without a fault')
  if (plant.content === 'once' && isSame && there.content === 'once' && there.call < plant.call)
    check(outcome !== 'refused', 'a repeated request is refused')
  if (outcome === 'Overloaded') check(call.before > 0, 'refused as full, and nobody waits')
  if (outcome === 'Unavailable') {
    check(
      at - call.lastSignOfLife >= limits.deadlineMs,
      'refused as unavailable, and the database serves'
    )
    check(
      outage !== null && at < outage.from + outage.ms + 5_000,
      'refused as unavailable long after the outage'
    )
  }
  if (isCalm && !isAtFault)
    check(
      ['created', 'duplicate', 'conflict'].includes(outcome),
      `${outcome}, and the database serves`
    )
}

const seed = Number(process.env.MODEL_SEED ?? Date.now() % 2 ** 31)
const numRuns = Number(process.env.MODEL_RUNS ?? 1_000)

t.test(`each call gets its one true outcome by its deadline: MODEL_SEED=${seed}`, async (t) => {
  const seen: Record<string, number> = {}
  const property = fc.asyncProperty(scenario, async (given) => {
    let dice = 0
    const time = installVirtualTime(() => given.random[dice++ % given.random.length] as number)
    const { calls, table } = await play(given, time).finally(time.restore)
    for (const call of calls) {
      judge(call, calls, table, given)
      const [outcome = ''] = call.outcomes
      seen[outcome] = (seen[outcome] ?? 0) + 1
    }
  })
  await fc.assert(property, { seed, numRuns, includeErrorInReport: true })
  t.comment(JSON.stringify(seen))
  const usual =
    'created duplicate conflict refused DeadlineExceeded OutcomeUnknown serverFault schemaMismatch Overloaded Unavailable'
  for (const outcome of usual.split(' ')) t.ok(seen[outcome], `some calls end with: ${outcome}`)
})
