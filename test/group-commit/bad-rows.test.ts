/** Rows at fault in full batches, against a store in virtual time: the others are stored by the deadline. */
import fc from 'fast-check'
import t from 'tap'
import { failureOf, takeTurns } from '../../harness/stores/scripted-store.ts'
import { createVirtualClock } from '../../harness/time/virtual-clock.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { AttemptEnd, AttemptRow } from '../../src/group-commit/types.ts'
import { type FailureKind, NotCommitted } from '../../src/shared/write-failure.ts'

/** What a row does to every attempt that comes to it. */
type Fault = 'never ends' | 'broken' | 'busy' | 'refused' | 'locked' | 'lost'

interface Plant {
  id: bigint
  bytes: number
  fault?: Fault | undefined
}

const troubles: Record<Fault, FailureKind> = {
  'never ends': 'busy',
  broken: 'broken',
  busy: 'chance',
  refused: 'refused',
  locked: 'busy',
  lost: 'lost'
}

const deadlineMs = 10_000
/** As in production: the store's own limit. */
const longestMs = deadlineMs / 3
const cancelMs = 1
const batchRows = 256

interface Options {
  lanes?: number
  /** What an attempt takes, now. */
  attemptMs?: (rows: number) => number
  /** What every attempt meets, now. */
  weather?: (rows: readonly AttemptRow<Plant>[]) => FailureKind | undefined
  random?: (() => number) | undefined
}

/** Chance that is the same in every run. */
function createRandom(seed: number) {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** A group commit over a store that takes its time and comes to the rows one after the other. */
function setUp({ lanes = 1, attemptMs = () => 10, weather = () => undefined, random }: Options = {}) {
  const clock = createVirtualClock(random)
  const attempts: { at: number; rows: number; mayBeStored: boolean }[] = []
  const outcomes = new Map<bigint, string>()
  const times = new Map<bigint, number>()
  const stored = new Set<bigint>()

  /** Takes its time, unless it is cut off; returns whether it came to its end. */
  const take = (ms: number, signal?: AbortSignal) =>
    new Promise<boolean>((resolve) => {
      const cancel = clock.after(Math.min(ms, longestMs), () => resolve(ms <= longestMs))
      signal?.addEventListener('abort', () => {
        cancel()
        clock.after(cancelMs, () => resolve(false))
      })
    })

  async function insert(
    rows: readonly AttemptRow<Plant>[],
    _lockMs: number,
    signal: AbortSignal
  ): Promise<AttemptEnd<string>> {
    attempts.push({
      at: clock.now(),
      rows: rows.length,
      mayBeStored: rows.every(({ mayBeStored }) => mayBeStored)
    })
    const wrong = rows.map(({ item }) => item.fault).find((fault) => fault !== undefined)
    const ms = wrong === 'never ends' ? Number.POSITIVE_INFINITY : attemptMs(rows.length)
    const isDone = await take(ms, signal)
    const trouble = weather(rows) ?? (isDone ? undefined : 'busy') ?? (wrong && troubles[wrong])
    if (trouble) return { failure: failureOf(trouble) }
    for (const { item } of rows) stored.add(item.id)
    return { results: rows.map(() => 'stored') }
  }

  async function find(rows: readonly AttemptRow<Plant>[], signal: AbortSignal): Promise<AttemptEnd<string>> {
    const isDone = await take(attemptMs(rows.length), signal)
    const trouble = weather(rows) ?? (isDone ? undefined : 'busy')
    if (trouble) return { failure: failureOf(trouble) }
    return { results: rows.map(({ item }) => (stored.has(item.id) ? 'stored' : undefined)) }
  }

  async function commitNothing() {
    const isDone = await take(attemptMs(0))
    if (!isDone || weather([])) throw new Error('no commit')
  }

  const group = new GroupCommit<Plant, string>(
    { insert, find, commitNothing, probe: async () => {} },
    { lanes, batchRows, batchBytes: 1_000_000, deadlineMs },
    { clock, policy: takeTurns }
  )

  /** Plants that come in one turn. */
  function submit(plants: { id: number; fault?: Fault | undefined }[]) {
    for (const { id, fault } of plants) {
      const outcome = (text: string) => {
        outcomes.set(BigInt(id), text)
        times.set(BigInt(id), clock.now())
      }
      group.submit({ id: BigInt(id), bytes: 10, fault }, outcome, (error) =>
        outcome(error instanceof NotCommitted ? error.reason : (error as Error).message)
      )
    }
    clock.endTurn()
  }
  /** How often each outcome occurred. */
  function count() {
    const counts: Record<string, number> = {}
    for (const outcome of outcomes.values()) counts[outcome] = (counts[outcome] ?? 0) + 1
    return counts
  }
  return { clock, group, attempts, outcomes, times, stored, submit, count }
}

/** Makes this many plants, with faults by their number. */
const plants = (rows: number, faults: Record<number, Fault> = {}, firstId = 0) =>
  Array.from({ length: rows }, (_, index) => ({ id: firstId + index, fault: faults[index] }))

/** Writes this many plants one after the other: the service knows what an attempt takes. */
async function warmUp({ submit, clock }: ReturnType<typeof setUp>, rows: number) {
  for (let id = -rows; id < 0; id++) {
    submit(plants(1, {}, id))
    await clock.move(deadlineMs / 2)
  }
}

t.test('one row that never ends: the 255 others are stored, but few where it is slow', async (t) => {
  for (const [lanes, attemptMs, writes, most] of [
    [1, 1, 0, 0],
    [1, deadlineMs / 100, 0, 0],
    [1, deadlineMs / 50, 20, 0],
    [3, deadlineMs / 50, 0, 0],
    [3, deadlineMs / 40, 20, 0],
    [1, deadlineMs / 20, 20, 15],
    [1, deadlineMs / 10, 0, 31],
    [1, deadlineMs / 10, 20, 63]
  ] as const) {
    let lost = 0
    for (let at = 0; at < batchRows; at += most > 0 ? 51 : 1) {
      const world = setUp({ lanes, attemptMs: () => attemptMs, random: createRandom(at + 7) })
      await warmUp(world, writes)
      world.submit(plants(batchRows, { [at]: 'never ends' }))
      await world.clock.move(deadlineMs)
      lost = Math.max(lost, writes + batchRows - 1 - (world.count().stored ?? 0))
    }
    t.ok(lost <= most, `${lanes} lanes, ${attemptMs} ms, ${writes} writes before: ${lost} of at most ${most}`)
  }
})

t.test('a database that is slow for all: only its own limit cuts off, and all are stored', async (t) => {
  for (const isKnown of [true, false]) {
    let ms = deadlineMs / 4
    const world = setUp({ lanes: 3, attemptMs: () => ms })
    await warmUp(world, isKnown ? 20 : 0)
    const before = world.attempts.length
    ms = longestMs + 1
    world.submit(plants(batchRows))
    ms = deadlineMs / 4
    await world.clock.move(deadlineMs)
    const rows = world.attempts.slice(before).map(({ rows }) => rows)
    t.same(rows, [256, 64, 64, 64, 64], isKnown ? 'known' : 'unknown')
    t.same(Object.keys(world.count()), ['stored'])
  }
})

t.test('a database that becomes slow while parts are tried: all are stored, also later ones', async (t) => {
  for (const slowMs of [deadlineMs / 23, deadlineMs / 20]) {
    const stalledUntil = longestMs - 3
    const { submit, clock, count } = setUp({
      lanes: 3,
      attemptMs: () => {
        if (clock.now() < stalledUntil) return Number.POSITIVE_INFINITY
        return clock.now() < stalledUntil + 14 ? 10 : slowMs
      }
    })
    submit(plants(batchRows))
    await clock.moveTo(deadlineMs / 2)
    submit(plants(batchRows, {}, 1_000))
    await clock.moveTo(deadlineMs)
    t.same(count(), { stored: 2 * batchRows }, `${slowMs} ms`)
  }
})

t.test('rows that are locked for a second: others are stored at once, these soon after', async (t) => {
  for (const ms of [10, 25, 50]) {
    const { submit, clock, count } = setUp({
      lanes: 3,
      attemptMs: () => ms,
      weather: (rows) =>
        clock.now() < 1_000 && rows.some(({ item }) => item.id < 768n) ? ('busy' as const) : undefined
    })
    submit(plants(3 * batchRows))
    await clock.moveTo(100)
    submit(plants(batchRows, {}, 1_000))
    // The attempt that is under way, a part that goes first, and theirs.
    await clock.moveTo(100 + 3 * ms)
    t.same(count(), { stored: batchRows })
    await clock.moveTo(deadlineMs)
    t.same(count(), { stored: 4 * batchRows })
  }
})

t.test('two attempts in five fail by chance: no row is blamed, and all are stored', async (t) => {
  for (let seed = 1; seed <= 3; seed++) {
    const random = createRandom(seed)
    const weather = () => (random() < 0.4 ? ('chance' as const) : undefined)
    const { submit, clock, count, attempts } = setUp({ lanes: 3, weather })
    const turns = 500
    for (let turn = 0; turn < turns; turn++) {
      submit(plants(20, {}, turn * 20))
      await clock.move(5)
    }
    await clock.move(deadlineMs / 5)
    t.same(count(), { stored: turns * 20 })
    t.ok(attempts.length < turns * 2, `${attempts.length} attempts`)
  }
})

/** At the deadline a row may be between two attempts, or in one. */
const allowed: Record<Fault, string[]> = {
  'never ends': ['expired', 'unknown'],
  broken: ['broken'],
  busy: ['expired', 'unknown'],
  refused: ['refused'],
  locked: ['expired', 'unknown'],
  lost: ['unknown']
}

t.test('one row at fault, wherever it stands: its neighbours are stored soon', async (t) => {
  for (const lanes of [1, 3]) {
    for (const fault of ['broken', 'busy', 'refused', 'locked', 'lost'] as const) {
      const wrong: number[] = []
      for (let at = 0; at < batchRows; at++) {
        const { submit, clock, count, outcomes, times, attempts } = setUp({ lanes })
        submit(plants(batchRows, { [at]: fault }))
        await clock.moveTo(deadlineMs)
        times.delete(BigInt(at))
        const last = Math.max(...times.values())
        const own = outcomes.get(BigInt(at)) as string
        const isRight = allowed[fault].includes(own) && count().stored === batchRows - 1
        // A row that is refused has no attempts of its own afterwards. Parts that go together may cost one more.
        const isQuick = !['broken', 'refused'].includes(fault) || attempts.length <= 1 + 1 + 16 + 1
        if (!isRight || !isQuick || last > deadlineMs / 10) wrong.push(at)
      }
      t.same(wrong, [], `${lanes} lanes, ${fault}`)
    }
  }
})

t.test('many rows at fault: no innocent row gets an error', async (t) => {
  const rows = 200
  const places = {
    adjacent: (_bad: number, at: number) => at,
    spread: (bad: number, at: number) => Math.floor(((at + 0.5) * rows) / bad)
  }
  for (const fault of ['broken', 'lost', 'locked', 'never ends'] as const) {
    for (const bad of [1, 4, 17, 40, 80]) {
      const lost: Record<string, number> = {}
      for (const [name, place] of Object.entries(places)) {
        for (const everyMs of [undefined, 100]) {
          for (let seed = 1; seed <= 5; seed++) {
            const { submit, clock, outcomes } = setUp({
              lanes: 3,
              attemptMs: () => 2,
              random: createRandom(seed * 7_919 + bad)
            })
            const faults = Array.from({ length: bad }, (_, at) => [place(bad, at), fault] as const)
            const all = plants(rows, Object.fromEntries(faults))
            submit(all)
            for (let id = 1_000; everyMs && clock.now() < deadlineMs; id++) {
              await clock.move(everyMs)
              const [late] = plants(1, {}, id) as [(typeof all)[0]]
              all.push(late)
              submit([late])
            }
            await clock.move(deadlineMs)
            const wrong = all.filter((row) => !row.fault && outcomes.get(BigInt(row.id)) !== 'stored').length
            const key = `${name}, ${everyMs ? 'with' : 'without'} others`
            lost[key] = Math.max(lost[key] ?? 0, wrong)
          }
        }
      }
      const most = Math.max(...Object.values(lost))
      t.equal(most, 0, `${fault} x${bad}: ${JSON.stringify(lost)}`)
    }
  }
})

t.test('slow rows and a locked one leave the others their lanes', async (t) => {
  const { submit, clock, count, times } = setUp({
    lanes: 3,
    attemptMs: () => 5,
    weather: (rows) => (clock.now() < 60 && rows.some(({ item }) => item.id === 0n) ? 'busy' : undefined)
  })
  const slow = [1, 2, 3, 4, 5, 6, 7, 8]
  submit([{ id: 0 }, ...slow.map((id) => ({ id, fault: 'never ends' as const }))])
  const arrivals = new Map<bigint, number>()
  for (let id = 100; clock.now() < 8_000; id++) {
    arrivals.set(BigInt(id), clock.now())
    submit([{ id }])
    await clock.move(10)
  }
  await clock.moveTo(8_000 + deadlineMs)
  t.equal(count().stored, 1 + arrivals.size, 'all others are stored')
  const waits = [...arrivals].map(([id, at]) => (times.get(id) as number) - at).sort((a, b) => a - b)
  t.ok((waits.at(-1) as number) <= 10, `the longest wait is ${waits.at(-1)} ms`)
})

t.test('a client that repeats rows at fault costs the others little of their throughput', async (t) => {
  interface Load {
    clients: number
    /** How long the client with rows at fault waits between two of them, at most. */
    badPauseMs: number
  }
  /** Counts the rows that clients store within a deadline, one after the other, while one more client has the fault. */
  async function measure({ clients, badPauseMs }: Load, fault?: Fault) {
    const { clock, group } = setUp({ lanes: 3, attemptMs: (rows) => 2 + rows / 50, random: createRandom(7) })
    let id = 0
    let stored = 0
    const start = (pauseMs: number, count: () => void, fault?: Fault) => {
      const again = () => clock.after(pauseMs * clock.random(), create)
      const create = () =>
        group.submit(
          { id: BigInt(++id), bytes: 10, fault },
          () => {
            count()
            again()
          },
          again
        )
      create()
    }
    const count = () => {
      if (clock.now() < deadlineMs) stored++
    }
    // They come one after the other: not all of them are in the first batch that fails.
    for (let client = 0; client < clients; client++) clock.after(client / 5, () => start(1, count))
    clock.after(20, () => start(badPauseMs, () => {}, fault))
    await clock.moveTo(deadlineMs)
    return stored
  }
  for (const load of [
    { clients: 64, badPauseMs: 1 },
    { clients: 128, badPauseMs: 200 }
  ]) {
    const calm = await measure(load)
    for (const fault of Object.keys(troubles) as Fault[]) {
      const stored = await measure(load, fault)
      // Each endless row keeps a lane until its attempt's limit.
      const share = fault === 'never ends' ? 0.9 : 0.98
      t.ok(stored > share * calm, `${load.clients} clients, ${fault}: ${stored} of ${calm}`)
    }
  }
})

t.test('what a failure of all costs, which no row is concluded from', async (t) => {
  t.test('where each row could be at fault: a constant rate, and all are stored afterwards', async (t) => {
    for (const trouble of ['busy', 'chance', 'lost'] as const) {
      const isOut = () => clock.now() < 5_000
      const weather = () => (isOut() ? trouble : undefined)
      const { submit, clock, count, attempts } = setUp({ lanes: 3, attemptMs: () => 2, weather })
      for (let turn = 0; turn < 500; turn++) {
        submit(plants(4, {}, turn * 4))
        await clock.move(10)
      }
      const late = attempts.filter(({ at }) => at > 2_000).length
      t.ok(late <= 250 * 3, `${trouble}: ${late} inserts in three seconds`)
      await clock.move(deadlineMs)
      t.same(count(), { stored: 2_000 }, trouble)
    }
  })

  t.test('a full disk, or no connection: an attempt of a lane each pause, of whole batches', async (t) => {
    for (const lanes of [1, 3]) {
      const weather = () => (clock.now() < deadlineMs * 0.7 ? 'away' : undefined)
      const { submit, clock, count, attempts } = setUp({ lanes, weather })
      submit(plants(4 * batchRows))
      await clock.moveTo(deadlineMs)
      t.same(count(), { stored: 4 * batchRows })
      t.same(new Set(attempts.map(({ rows }) => rows)), new Set([batchRows]))
      t.ok(attempts.length <= 25 * lanes + 4, `${attempts.length} attempts`)
    }
  })
})

t.test('rows that keep coming while any of them could be at fault are all stored afterwards', async (t) => {
  for (const trouble of ['chance', 'lost'] as const) {
    const isOut = () => clock.now() >= 1_000 && clock.now() < 4_000
    const { submit, clock, count } = setUp({
      lanes: 3,
      attemptMs: () => (isOut() ? 2 : 5),
      weather: () => (isOut() ? trouble : undefined)
    })
    for (let at = 0; at < 10_000; at++) {
      submit(plants(1, {}, at))
      await clock.move(1)
    }
    await clock.move(deadlineMs)
    t.same(count(), { stored: 10_000 }, trouble)
  }
})

t.test('rows that may be stored and then meet a breakage are all decided when it is repaired', async (t) => {
  for (const mayBeOneRows of [true, false]) {
    for (const lanes of [1, 3]) {
      const weather = () => {
        if (clock.now() < 100) return 'lost'
        return clock.now() < deadlineMs / 2 ? (mayBeOneRows ? 'broken' : 'gone') : undefined
      }
      const { submit, clock, count, attempts } = setUp({ lanes, weather, attemptMs: () => 50 })
      submit(plants(lanes * batchRows))
      await clock.moveTo(deadlineMs / 2)
      t.same(count(), {}, 'none of them is given up')
      const cycles = attempts.length / lanes / (mayBeOneRows ? 17 : 1)
      t.ok(cycles < 20, 'with growing pauses')
      await clock.moveTo(deadlineMs)
      t.same(count(), { stored: lanes * batchRows })
      const last = attempts.slice(-1)
      t.ok(last.every(({ mayBeStored }) => mayBeStored))
    }
  }
})

t.test('some rows at fault of any kind in any places: every innocent row is stored', async () => {
  const place = fc.nat(batchRows - 1)
  const given = fc.record({
    lanes: fc.integer({ min: 1, max: 3 }),
    attemptMs: fc.integer({ min: 1, max: deadlineMs / 200 }),
    rows: fc.integer({ min: 1, max: 2 * batchRows }),
    slow: fc.array(place, { maxLength: 2 }),
    faults: fc.array(fc.tuple(place, fc.constantFrom<Fault>('broken', 'busy', 'refused', 'locked', 'lost')), {
      maxLength: 5
    }),
    lateAt: fc.nat(deadlineMs)
  })
  await fc.assert(
    fc.asyncProperty(given, async ({ lanes, attemptMs, rows, slow, faults, lateAt }) => {
      const { submit, clock, outcomes, attempts, stored, group } = setUp({
        lanes,
        attemptMs: () => attemptMs
      })
      const neverEnds = slow.map((at) => [at, 'never ends'] as const)
      const all = plants(rows, Object.fromEntries(slow.length > 1 ? neverEnds : [...faults, ...neverEnds]))
      submit(all)
      await clock.moveTo(lateAt)
      const late = plants(batchRows, {}, 10_000)
      submit(late)
      await clock.moveTo(lateAt + deadlineMs)
      for (const { id, fault } of [...all, ...late]) {
        const outcome = outcomes.get(BigInt(id)) as string
        // What failed together with a row that loses its connection may be stored.
        const open = all.some((other) => other.fault === 'lost') ? ['unknown'] : []
        const right = fault ? [...allowed[fault], ...open] : ['stored']
        if (!right.includes(outcome)) throw new Error(`${id} ${fault}: ${outcome}`)
        if (stored.has(BigInt(id)) !== (fault === undefined)) throw new Error(`${id} is stored`)
      }
      if (group.load.rows > 0 || attempts.length > 2_000) throw new Error(`${attempts.length} attempts`)
    }),
    { numRuns: 300 }
  )
})
