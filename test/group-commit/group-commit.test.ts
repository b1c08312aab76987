/** Group commit against a store whose attempts each test ends by hand. */
import t from 'tap'
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import {
  type AttemptRow,
  type Batch,
  type Limits,
  missing,
  NotCommitted,
  type WriteFailure
} from '../../src/group-commit/types.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

interface Plant {
  id: bigint
  bytes: number
  label: string
}

class StoreError extends Error {
  readonly trouble: WriteFailure
  readonly mayBeOneRows: boolean
  constructor(trouble: WriteFailure, mayBeOneRows: boolean) {
    super(trouble)
    this.trouble = trouble
    this.mayBeOneRows = mayBeOneRows
  }
}

interface Attempt {
  rows: readonly AttemptRow<Plant>[]
  /** The labels, in order. */
  labels: string
  repeated: boolean[]
  signal: AbortSignal
  at: number
  succeed(...results: (string | Error | typeof missing)[]): Promise<void>
  /** One row may be what makes it fail so, if that is said. */
  fail(trouble: WriteFailure, mayBeOneRows?: 'oneRows'): Promise<void>
}

const roomy: Limits = {
  lanes: 1,
  batchRows: 100,
  batchBytes: 1000,
  queueRows: 1000,
  queueBytes: 10_000,
  deadlineMs: 10_000
}

/** A group commit over a store whose attempts the test ends by hand. */
function setUp(limits: Partial<Limits> = {}, onBatch?: (batch: Batch) => void, random = 0) {
  const clock = createVirtualClock(() => random)
  const attempts: Attempt[] = []
  const answers: Record<string, unknown> = {}
  const probes: { at: number; succeed(): Promise<void>; fail(): Promise<void> }[] = []
  const group = createGroupCommit<Plant, string>(
    {
      write(rows, signal) {
        const { promise, resolve, reject } = Promise.withResolvers<(string | Error | typeof missing)[]>()
        attempts.push({
          rows: [...rows],
          labels: rows.map(({ item }) => item.label).join(' '),
          repeated: rows.map(({ repeated }) => repeated),
          signal,
          at: clock.now(),
          succeed(...results) {
            resolve(rows.map(({ item }, index) => results[index] ?? `stored ${item.label}`))
            return clock.settle()
          },
          fail(trouble, mayBeOneRows) {
            reject(new StoreError(trouble, mayBeOneRows !== undefined))
            return clock.settle()
          }
        })
        return promise
      },
      classify: (error) => (error as StoreError).trouble,
      mayBeOneRows: (error) => (error as StoreError).mayBeOneRows,
      probe() {
        const { promise, resolve, reject } = Promise.withResolvers<void>()
        probes.push({
          at: clock.now(),
          succeed() {
            resolve()
            return clock.settle()
          },
          fail() {
            reject(new Error('databaseDown'))
            return clock.settle()
          }
        })
        return promise
      }
    },
    { ...roomy, ...limits },
    onBatch ? { clock, onBatch } : { clock }
  )
  /** Plants that arrive in one turn of the event loop. Labels such as `7a`: the digits are the id. */
  function submitTogether(...labels: string[]) {
    for (const label of labels) {
      const item = { id: BigInt(Number.parseInt(label, 10)), bytes: 10, label }
      group.submit(item).then(
        (result) => (answers[label] = result),
        (error) => (answers[label] = error instanceof NotCommitted ? error.reason : error.message)
      )
    }
    clock.endTurn()
  }
  /** Plants that arrive in a turn each. */
  function submit(...labels: string[]) {
    for (const label of labels) submitTogether(label)
  }
  const last = () => attempts.at(-1) as Attempt
  const log = () => attempts.map(({ labels }) => labels)
  return { clock, group, attempts, answers, probes, submit, submitTogether, last, log }
}

t.test('lanes', async (t) => {
  t.test(
    'a lone row is written in the turn of its arrival, and its answer starts the next batch',
    async (t) => {
      const { submit, log, last, answers, clock } = setUp()
      submit('1')
      t.same(log(), ['1'])
      t.equal(clock.pending, 1, 'one timer, for the deadline')
      submit('4', '3', '-2', '2')
      t.same(log(), ['1'], 'the lane is busy')
      await last().succeed()
      t.same(answers, { '1': 'stored 1' })
      t.same(log(), ['1', '-2 2 3 4'], 'sorted by id')
      await last().succeed()
      t.equal(Object.keys(answers).length, 5)
      t.equal(clock.pending, 1, 'still one timer')
    }
  )

  t.test('each free lane takes what waits, no more lanes than allowed', async (t) => {
    const { submit, log, attempts, group } = setUp({ lanes: 2 })
    submit('1', '2', '3', '4')
    t.same(log(), ['1', '2'])
    t.equal(group.busyLanes, 2)
    await attempts[1]?.succeed()
    t.same(log(), ['1', '2', '3 4'])
    await attempts[0]?.succeed()
    t.equal(group.busyLanes, 1)
    await attempts[2]?.succeed()
    t.equal(group.busyLanes, 0)
  })

  t.test('what arrives in one turn shares a batch, and leaves the other lanes free', async (t) => {
    const { submitTogether, log, group } = setUp({ lanes: 2, batchRows: 3 })
    submitTogether('1', '2', '3')
    t.same(log(), ['1 2 3'])
    t.equal(group.busyLanes, 1)
    submitTogether('4', '5', '6', '7')
    t.same(log(), ['1 2 3', '4 5 6'])
  })

  t.test('a batch that is full does not wait for the end of the turn', async (t) => {
    const { group, clock, log } = setUp({ lanes: 2, batchRows: 2 })
    for (const id of [1n, 2n, 3n]) void group.submit({ id, bytes: 1, label: String(id) })
    t.same(log(), ['1 2'])
    clock.endTurn()
    t.same(log(), ['1 2', '3'])
  })

  t.test('an answer that comes in the turn of the deadline counts', async (t) => {
    const { submit, clock, last, answers } = setUp({ deadlineMs: 1_000 })
    submit('1')
    clock.after(1_000, () => void last().succeed())
    await clock.move(1_000)
    t.same(answers, { '1': 'stored 1' })
  })

  t.test('what closes in the turn of a row writes it', async (t) => {
    const { group, clock, last, log } = setUp()
    const answer = group.submit({ id: 1n, bytes: 1, label: '1' })
    const closed = group.close()
    clock.endTurn()
    await last().succeed()
    t.equal(await answer, 'stored 1')
    await closed
    t.same(log(), ['1'])
  })

  t.test('ids beyond 2^53 sort exactly', async (t) => {
    const { group, last, clock } = setUp()
    const add = (id: bigint) => void group.submit({ id, bytes: 1, label: String(id) })
    for (const id of [9007199254740993n, 9007199254740992n, -9223372036854775808n]) add(id)
    clock.endTurn()
    t.equal(last().labels, '-9223372036854775808 9007199254740992 9007199254740993')
  })

  t.test('a batch is bounded in rows', async (t) => {
    const { submit, log, last } = setUp({ batchRows: 2 })
    submit('1', '2', '3', '4')
    await last().succeed()
    await last().succeed()
    t.same(log(), ['1', '2 3', '4'])
  })

  t.test('a batch is bounded in bytes; a row that is larger goes alone', async (t) => {
    const { group, clock, last, log } = setUp({ batchBytes: 100 })
    const sizes = [60, 40, 1, 500, 100, 1]
    for (const [index, bytes] of sizes.entries()) {
      void group.submit({ id: BigInt(index), bytes, label: String(bytes) })
    }
    clock.endTurn()
    for (const _ of sizes) await last().succeed()
    t.same(log(), ['60 40', '1', '500', '100', '1'])
  })
})

t.test('one id', async (t) => {
  t.test('rows of one id go one after the other, in order; other ids pass', async (t) => {
    const { submit, log, attempts } = setUp({ lanes: 3 })
    submit('1a', '1b', '1c', '2')
    t.same(log(), ['1a', '2'])
    await attempts[1]?.succeed()
    t.same(log(), ['1a', '2'], 'a free lane does not take the id that is in flight')
    await attempts[0]?.fail('fatal')
    t.same(log(), ['1a', '2', '1b'])
    await attempts[2]?.succeed(new Error('duplicate'))
    t.same(log(), ['1a', '2', '1b', '1c'])
  })

  t.test('a batch has one row of an id', async (t) => {
    const { submit, log, last } = setUp()
    submit('0', '1a', '1b', '2a', '2b')
    for (const _ of [1, 2, 3]) await last().succeed()
    t.same(log(), ['0', '1a 2a', '1b 2b'])
  })

  t.test('rows that wait for their id expire in order, and the rest go on when the id is free', async (t) => {
    const { submit, log, last, answers, clock } = setUp()
    submit('1a', '1b', '1c')
    await clock.move(5000)
    submit('1d')
    await clock.move(5000)
    t.same(answers, { '1a': 'unknown', '1b': 'expired', '1c': 'expired' })
    t.same(log(), ['1a'], 'the id is in flight until the attempt ends')
    await last().succeed()
    t.same(log(), ['1a', '1d'])
    submit('1e')
    await last().succeed()
    await last().succeed()
    t.match(answers, { '1d': 'stored 1d', '1e': 'stored 1e' })
  })

  t.test('a row may join behind its id after all who waited there have expired', async (t) => {
    const { submit, log, attempts, last, answers, clock, group } = setUp({ lanes: 2, deadlineMs: 100 })
    submit('1a', '2', '1b')
    await clock.move(50)
    await attempts[1]?.succeed()
    await clock.move(50)
    t.match(answers, { '1a': 'unknown', '1b': 'expired' })
    submit('1c')
    await attempts[0]?.succeed()
    await last().succeed()
    t.same(log(), ['1a', '2', '1c'])
    t.equal(answers['1c'], 'stored 1c')
    t.equal(group.rows, 0)
  })

  t.test('an id in flight stays so, however many others pass', async (t) => {
    const { submit, attempts, last, log, group } = setUp({ lanes: 2, queueRows: 10_000 })
    submit('0a')
    for (let id = 1; id <= 3000; id++) {
      submit(String(id))
      await last().succeed()
    }
    submit('0b')
    t.equal(last().labels, '3000')
    t.equal(group.rows, 2)
    await attempts[0]?.succeed()
    t.equal(last().labels, '0b')
    t.equal(log().length, 3002)
  })

  t.test('a row that expires in the queue hands its id on; its neighbours stay in order', async (t) => {
    const { submit, log, last, answers, clock } = setUp()
    submit('0')
    await clock.move(1)
    submit('1a', '2', '3')
    await clock.move(1)
    submit('1b', '4')
    await clock.move(9999)
    t.same(answers, { '0': 'unknown', '1a': 'expired', '2': 'expired', '3': 'expired' })
    await last().succeed()
    t.same(log(), ['0', '1b 4'])
  })
})

t.test('bounds', async (t) => {
  t.test('a full queue refuses at once, rows in lanes and behind their id included', async (t) => {
    const { submit, answers, group, last, clock } = setUp({ queueRows: 3 })
    submit('1a', '1b', '2', '3')
    await clock.settle()
    t.same(answers, { '3': 'full' })
    t.equal(group.rows, 3)
    await last().succeed()
    submit('4', '5')
    await clock.settle()
    t.same(answers, { '1a': 'stored 1a', '3': 'full', '5': 'full' })
  })

  t.test('a queue full in bytes refuses what does not fit', async (t) => {
    const { group, submit, answers, last, clock } = setUp({ queueBytes: 25 })
    submit('1', '2', '3')
    t.equal(group.bytes, 20)
    await clock.settle()
    t.same(answers, { '3': 'full' })
    await last().succeed()
    await last().succeed()
    t.equal(group.bytes, 0)
  })

  t.test('rows whose time is up before their turn comes are refused at once', async (t) => {
    const { submit, answers, last, clock, group } = setUp({ batchRows: 2, deadlineMs: 1_000 })
    /** How many of ten more rows are taken; the last of them stay in a lane. */
    let id = 0
    const taken = async () => {
      const before = group.rows
      for (let count = 0; count < 10; count++) submit(String(++id))
      await clock.settle()
      return group.rows - before
    }
    const write = async (ms: number) => {
      await clock.move(ms)
      await last().succeed()
    }
    submit(String(++id))
    submit(String(++id), String(++id))
    // Half a batch counts for an eighth, a full one for a quarter.
    await write(400)
    t.equal(group.expectedMs, 50)
    await write(400)
    t.equal(group.expectedMs, 0)
    t.equal(await taken(), 8, 'seven rows take 481 ms, eight 550 ms')
    t.equal(group.expectedMs, 550)
    t.equal(answers[String(id)], 'full')
    t.equal(answers[String(id - 2)], undefined)
    await write(0)
    t.equal(await taken(), 2, 'half a batch in no time makes it 481 ms for eight rows')
    for (let count = 0; count < 6; count++) await write(0)
    t.equal(group.rows, 0)
    t.equal(await taken(), 10)
  })

  t.test('an attempt that fails, however late, refuses nobody', async (t) => {
    const { submit, answers, last, clock, group } = setUp({ batchRows: 1, deadlineMs: 1_000 })
    submit('1')
    await clock.move(900)
    await last().fail('transient')
    submit('2', '3', '4')
    await clock.settle()
    t.equal(group.expectedMs, 0)
    t.same(answers, {})
  })
})

t.test('deadlines', async (t) => {
  t.test(
    'a row of a running attempt is answered by its deadline; the last one aborts the attempt',
    async (t) => {
      const { submit, answers, attempts, clock, group, log } = setUp()
      submit('0')
      submit('1')
      await clock.move(1)
      submit('2')
      await attempts[0]?.succeed()
      t.same(log(), ['0', '1 2'])
      await clock.moveTo(9999)
      t.same(answers, { '0': 'stored 0' })
      await clock.moveTo(10_000)
      t.same(answers, { '0': 'stored 0', '1': 'unknown' })
      t.notOk(attempts[1]?.signal.aborted, 'one still waits')
      await clock.moveTo(10_001)
      t.equal(answers['2'], 'unknown')
      t.ok(attempts[1]?.signal.aborted)
      submit('3')
      t.same(log(), ['0', '1 2'], 'the lane is taken until the attempt has ended')
      t.equal(group.busyLanes, 1)
      await attempts[1]?.fail('uncertain')
      t.same(log(), ['0', '1 2', '3'], 'without a pause')
    }
  )

  t.test('an attempt that succeeds after a row has expired answers the others', async (t) => {
    const { submit, answers, attempts, clock, log } = setUp()
    submit('0', '1a')
    await clock.move(1)
    submit('2', '1b')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    await attempts[1]?.succeed()
    t.same(answers, { '0': 'stored 0', '1a': 'unknown', '2': 'stored 2' })
    t.same(log(), ['0', '1a 2', '1b'])
  })

  t.test('an expired row leaves before the next attempt', async (t) => {
    const { submit, answers, attempts, clock, log } = setUp()
    submit('0', '1')
    await clock.move(5)
    submit('2')
    await attempts[0]?.succeed()
    await clock.moveTo(9999)
    await attempts[1]?.fail('uncertain')
    await clock.moveTo(10_004)
    t.same(answers, { '0': 'stored 0', '1': 'unknown' })
    await clock.moveTo(10_005)
    t.match(answers, { '2': 'unknown' })
    t.same(log(), ['0', '1 2'])

    submit('3')
    await attempts[2]?.succeed()
    submit('4')
    await clock.move(20)
    submit('5')
    await attempts[3]?.fail('refused')
    t.same(log().slice(2), ['3', '4', '5'])
  })

  t.test('what was never sent, or sent without effect, has expired; the rest is unknown', async (t) => {
    const { submit, answers, attempts, clock } = setUp({ lanes: 2 })
    submit('1', '2', '3')
    await attempts[0]?.fail('locked')
    await attempts[2]?.fail('uncertain')
    await clock.moveTo(10_000)
    t.same(answers, { '1': 'expired', '2': 'unknown', '3': 'unknown' })
  })
})

t.test('transient failures', async (t) => {
  t.test('the batch keeps its lane and is repeated after growing pauses, its rows marked', async (t) => {
    const { submit, attempts, last, clock, answers, log } = setUp({ lanes: 2 })
    submit('1')
    for (let count = 0; count < 8; count++) {
      await last().fail('uncertain')
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.same(
      attempts.map(({ at }, index) => at - (attempts[index - 1]?.at ?? 0)),
      [0, 10, 20, 40, 80, 160, 320, 500, 500]
    )
    t.same(attempts[0]?.repeated, [false])
    t.same(last().repeated, [true])
    submit('2')
    t.same(last().labels, '2', 'other lanes go on')
    t.same(last().repeated, [false])
    submit('3', '4')
    await attempts[8]?.succeed()
    t.same(answers, { '1': 'stored 1' })
    t.same(log().slice(-2), ['2', '3 4'])
  })

  t.test('only an attempt whose outcome is open marks its rows, and for good', async (t) => {
    const { submit, last, clock, answers } = setUp({ deadlineMs: 100 })
    submit('1')
    for (const trouble of ['transient', 'uncertain', 'transient'] as const) {
      await last().fail(trouble)
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.same(last().repeated, [true])
    await last().succeed()
    submit('2')
    await last().fail('transient')
    await clock.moveTo(clock.nextAt ?? 0)
    t.same(last().repeated, [false])
    while (answers['2'] === undefined) {
      await last().fail('transient')
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.same(answers, { '1': 'stored 1', '2': 'expired' })
  })

  t.test('the jitter spreads a pause between half and all of it', async (t) => {
    for (const [random, pause] of [
      [0, 10],
      [0.5, 15],
      [0.75, 17.5]
    ] as const) {
      const { submit, last, clock } = setUp({}, undefined, random)
      submit('1')
      await last().fail('uncertain')
      t.equal(clock.nextAt, pause)
    }
  })

  t.test('a pause that nobody waits for any more ends', async (t) => {
    const { submit, last, clock, log } = setUp({ deadlineMs: 1000 })
    submit('0')
    await last().succeed()
    submit('1', '2')
    await clock.move(999)
    await last().fail('uncertain')
    await clock.move(1)
    t.same(log(), ['0', '1'])
    t.equal(clock.pending, 0)
  })
})

t.test('refused data', async (t) => {
  t.test('a bad row is found by halves; the half without it is stored first', async (t) => {
    const { submit, last, log, answers, group } = setUp()
    submit('0', '1', '2', '3', '4', '5')
    await last().succeed()
    await last().fail('refused')
    await last().fail('refused')
    await last().succeed()
    await last().succeed()
    await last().fail('refused')
    t.same(log(), ['0', '1 2 3 4 5', '1 2 3', '4 5', '1 2', '3'])
    t.match(answers, { '1': 'stored 1', '2': 'stored 2', '3': 'refused', '4': 'stored 4', '5': 'stored 5' })
    t.equal(group.busyLanes, 0)
  })

  t.test('a row may expire between the halves', async (t) => {
    const { submit, last, log, answers, clock, attempts } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2a', '2b')
    await attempts[0]?.succeed()
    await clock.move(1)
    submit('3', '4')
    await last().fail('refused')
    t.same(log(), ['0', '9', '1 2a', '1'])
    await clock.moveTo(10_000)
    t.same(answers, { '0': 'stored 0', '9': 'unknown', '1': 'unknown', '2a': 'expired', '2b': 'expired' })
    submit('2c')
    await last().succeed()
    t.same(log(), ['0', '9', '1 2a', '1', '2c 3 4'])
  })
})

t.test('a batch that was cut off', async (t) => {
  t.test('its parts have little time; who is slow in itself waits alone, and has all of it', async (t) => {
    const { submit, last, log, answers, clock, group } = setUp()
    submit('0', '1', '2', '3')
    await last().succeed()
    t.equal(clock.pending, 1, 'for the deadline')
    await last().fail('slow')
    const limit = clock.now() + 10_000 / 24
    t.equal(clock.nextAt, limit)
    await clock.moveTo(limit)
    t.ok(last().signal.aborted)
    await last().fail('slow')
    await last().succeed()
    await last().succeed()
    t.same(answers, { '0': 'stored 0', '2': 'stored 2', '3': 'stored 3' })
    await last().fail('slow')
    t.same(log(), ['0', '1 2 3', '1', '2', '3', '1'])
    t.equal(group.busyLanes, 0, 'it waits outside the lanes')
    await clock.move(20)
    t.equal(clock.pending, 1, 'for the deadline')
    await last().succeed()
    t.same(log().at(-1), '1')
    t.equal(answers['1'], 'stored 1')
  })

  t.test('a part that meets another failure keeps its limit', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit(...Array.from({ length: 33 }, (_, id) => String(id)))
    await last().succeed()
    await last().fail('slow')
    t.same(last().labels, '1 2')
    await last().succeed()
    t.same(last().labels, '3 4')
    await last().fail('refused')
    while (last().labels !== '3') await last().succeed()
    t.equal(log().length, 2 + 16 + 1)
    await clock.move(10_000 / 24)
    t.ok(last().signal.aborted)
  })

  t.test('several lanes try its parts', async (t) => {
    const { submit, attempts, log } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2', '3')
    await attempts[0]?.succeed()
    await attempts[2]?.fail('slow')
    t.same(log(), ['0', '9', '1 2 3', '1'])
    await attempts[1]?.succeed()
    t.same(log().at(-1), '2')
  })

  t.test('who comes when one is slow by itself has no claim to the time before', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1')
    await clock.move(1_000)
    await last().fail('slow')
    await clock.move(10)
    submit('2', '3')
    await last().fail('locked')
    t.same(log(), ['1', '1', '2'])
    await clock.move(20)
    await last().succeed()
    t.same(log(), ['1', '1', '2', '1'])
  })

  t.test('one that is slow by itself has its turn when others had as much time', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2', '3', '4', '5', '6')
    await clock.move(1_000)
    await last().fail('slow')
    await clock.move(400)
    await last().succeed()
    await clock.move(400)
    await last().succeed()
    t.same(log(), ['1', '2', '3', '4'])
    await clock.move(400)
    await last().succeed()
    t.same(log(), ['1', '2', '3', '4', '1'])
    await last().succeed()
    await last().succeed()
    t.same(log().slice(5), ['5', '6'])
  })
})

t.test('a row is not called refused where an earlier attempt may have stored it', async (t) => {
  const { submit, last, answers, clock } = setUp()
  submit('1')
  await last().fail('uncertain')
  await clock.move(20)
  await last().fail('refused')
  t.same(answers, { '1': 'unknown' })
})

t.test('a row that may be stored is asked for again after a fatal failure, too', async (t) => {
  const { submit, last, log, answers, clock } = setUp()
  submit('1')
  await last().fail('uncertain')
  await clock.move(20)
  await last().fail('fatal')
  t.same(answers, {}, 'it is neither given up nor called an error')
  await clock.move(20)
  await last().succeed()
  t.same(log(), ['1', '1', '1'])
  t.same(answers, { '1': 'stored 1' })
})

t.test("a failure that may be one row's or everyone's", async (t) => {
  t.test("a row may expire before it is found to be everyone's", async (t) => {
    const { submit, last, log, answers, clock, group } = setUp()
    submit('0', '1')
    await clock.move(1)
    submit('2')
    await last().succeed()
    await clock.moveTo(9_999)
    await last().fail('fatal', 'oneRows')
    await last().fail('fatal', 'oneRows')
    t.same(log(), ['0', '1 2', '1', '2'])
    await clock.moveTo(10_000)
    await last().fail('fatal', 'oneRows')
    t.same(answers, { '0': 'stored 0', '1': 'expired', '2': 'fatal' })
    t.equal(group.rows, 0)
  })

  t.test('parts in other lanes may fail when that is known already', async (t) => {
    const { submit, attempts, log, answers, group } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2')
    await attempts[0]?.succeed()
    await attempts[1]?.succeed()
    await attempts[2]?.fail('fatal', 'oneRows')
    t.same(log(), ['0', '9', '1 2', '1', '2'])
    await attempts[3]?.fail('fatal', 'oneRows')
    t.same(log().at(-1), '1', 'it is tried again until it is known')
    await attempts[4]?.fail('fatal', 'oneRows')
    t.match(answers, { '2': 'fatal' })
    await attempts[5]?.fail('fatal', 'oneRows')
    t.match(answers, { '1': 'fatal' })
    t.equal(group.busyLanes, 0)
  })

  t.test('transient ones are looked for after three in a row', async (t) => {
    const { submit, last, log, answers, clock } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    for (const [trouble, kind] of [
      ['transient', 'oneRows'],
      ['transient', 'oneRows'],
      ['uncertain', 'oneRows'],
      ['transient', 'oneRows'],
      ['transient', 'oneRows'],
      ['transient', undefined],
      ['transient', 'oneRows'],
      ['transient', 'oneRows'],
      ['transient', 'oneRows']
    ] as const) {
      t.equal(last().labels, '1 2')
      await last().fail(trouble, kind)
      await clock.move(1_000)
    }
    t.same(last().labels, '1')
    await last().succeed()
    t.same(last().labels, '2')
    await last().fail('transient', 'oneRows')
    await clock.move(10)
    submit('3')
    t.same(last().labels, '3', 'it waits outside the lanes')
    t.match(answers, { '0': 'stored 0', '1': 'stored 1' })
    t.same(log().length, 13)
  })

  t.test('its pauses grow, until something is written', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit('0', '1', '2', '3')
    await last().succeed()
    const pauses: number[] = []
    const fail = async () => {
      const began = clock.now()
      await last().fail('transient', 'oneRows')
      await clock.moveTo(clock.nextAt as number)
      pauses.push(clock.now() - began)
    }
    for (let count = 0; count < 5; count++) await fail()
    await last().succeed()
    await fail()
    t.same(log().slice(0, 7), ['0', '1 2 3', '1 2 3', '1 2 3', '1', '2', '3'])
    t.same(pauses, [10, 20, 40, 80, 160, 10])
  })

  t.test('a lone row that is tried again after a breakage leaves its turn to other suspects', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit('1', '2')
    await last().fail('locked')
    await last().fail('locked')
    await clock.move(10)
    t.same(log(), ['1', '2', '1'])
    await last().fail('uncertain')
    await clock.move(10)
    await last().fail('fatal')
    t.same(log(), ['1', '2', '1', '1', '2'])
  })
})

t.test('a lane that still has rows to try leaves what becomes free to another lane', async (t) => {
  t.test('a row whose id is free after a refusal', async (t) => {
    const { submit, attempts, last, log } = setUp({ lanes: 2 })
    submit('8', '9', '1a', '2', '1b')
    await attempts[0]?.succeed()
    await last().fail('refused')
    await attempts[1]?.succeed()
    await attempts[3]?.fail('refused')
    t.same(log(), ['8', '9', '1a 2', '1a', '2', '1b'])
  })

  t.test('a row whose predecessor has expired in a failed attempt', async (t) => {
    const { submit, attempts, clock, last, log, answers } = setUp({ lanes: 2 })
    submit('8', '9', '1a')
    await clock.move(1)
    submit('2', '1b')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    t.same(log(), ['8', '9', '1a 2'])
    await attempts[1]?.succeed()
    t.same(log(), ['8', '9', '1a 2'], 'the expired row keeps its id while its attempt runs')
    await last().fail('uncertain')
    t.same(log(), ['8', '9', '1a 2', '1b'])
    t.same(answers, { '8': 'stored 8', '9': 'unknown', '1a': 'unknown' })
  })

  t.test('a row whose predecessor has expired between attempts', async (t) => {
    const { submit, attempts, clock, last, log } = setUp({ lanes: 2 })
    submit('8', '9', '1a')
    await clock.move(1)
    submit('2', '1b')
    await attempts[0]?.succeed()
    await attempts[1]?.succeed()
    await clock.moveTo(9995)
    await last().fail('uncertain')
    await clock.moveTo(10_000)
    t.same(log(), ['8', '9', '1a 2', '1b'])
  })

  t.test('a lone row is not blamed for a neighbour that has expired in the refused attempt', async (t) => {
    const { submit, attempts, clock, last, log, answers } = setUp()
    submit('0', '1')
    await clock.move(1)
    submit('2')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    await last().fail('refused')
    t.same(log(), ['0', '1 2', '2'])
    await last().succeed()
    t.same(answers, { '0': 'stored 0', '1': 'unknown', '2': 'stored 2' })
  })
})

t.test('locks', async (t) => {
  t.test('a locked row is tried again alone, outside the lanes, until its deadline', async (t) => {
    const { submit, last, log, answers, clock, group } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('locked')
    await last().fail('locked')
    await last().succeed()
    t.same(log(), ['0', '1 2', '1', '2'])
    t.equal(group.busyLanes, 0)
    submit('3')
    t.same(last().labels, '3', 'the lane is free for others')
    await last().succeed()
    await clock.move(10)
    t.same(last().labels, '1')
    t.same(last().repeated, [false])
    submit('4', '5')
    await last().fail('locked')
    t.same(last().labels, '4 5')
    await clock.move(20)
    await last().succeed()
    t.same(last().labels, '1', 'what has held up a batch joins no batch again')
    while (!answers['1']) {
      await last().fail('locked')
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.equal(answers['1'], 'expired')
    t.equal(clock.now(), 10_000)
    t.equal(clock.pending, 0, 'its pause has ended with it')
  })

  t.test('many locked rows take one lane at most, and in turn with the others', async (t) => {
    const { submit, last, log, clock, attempts } = setUp({ lanes: 2 })
    submit('1', '2')
    await attempts[0]?.fail('locked')
    await attempts[1]?.fail('locked')
    await clock.move(10)
    t.same(log(), ['1', '2', '1'], 'the second waits though a lane is free')
    submit('3', '4')
    t.same(last().labels, '3')
    await attempts[2]?.fail('locked')
    t.same(log(), ['1', '2', '1', '3', '2'])
    submit('5')
    await attempts[4]?.fail('locked')
    t.same(last().labels, '4 5')

    const single = setUp()
    single.submit('1')
    await single.last().fail('locked')
    single.submit('2')
    await single.clock.move(10)
    single.submit('3')
    await single.last().succeed()
    t.same(single.log(), ['1', '2', '1'])
    await single.last().fail('locked')
    t.same(single.log(), ['1', '2', '1', '3'])
  })

  t.test('one lane serves locked rows and others in turn', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2')
    await last().fail('locked')
    await last().fail('locked')
    submit('3', '4', '5')
    await clock.move(10)
    for (const _ of [1, 2, 3, 4]) await last().succeed()
    t.same(log(), ['1', '2', '3', '1', '4', '2', '5'])
  })

  t.test('the row behind a locked one goes alone too', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit('1a')
    await last().fail('locked')
    await clock.move(5)
    submit('2')
    await clock.move(9990)
    submit('1b', '3')
    await clock.move(5)
    await last().succeed()
    t.same(log(), ['1a', '2', '1b'])
  })
})

t.test('other outcomes', async (t) => {
  t.test('a fatal failure fails every row of the batch', async (t) => {
    const { submit, last, log, answers } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('fatal')
    t.same(answers, { '0': 'stored 0', '1': 'fatal', '2': 'fatal' })
    t.same(log(), ['0', '1 2'])
  })

  t.test("a row's own error is its caller's only", async (t) => {
    const { submit, last, answers } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().succeed('replayed', new Error('conflict'))
    t.same(answers, { '0': 'stored 0', '1': 'replayed', '2': 'conflict' })
  })

  t.test('a missing row is tried three times more, then fails', async (t) => {
    const { submit, last, log, answers, clock } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().succeed(missing)
    t.match(answers, { '2': 'stored 2' })
    for (const pause of [10, 20, 40]) {
      t.notOk('1' in answers)
      await clock.move(pause)
      t.same(last().labels, '1')
      await last().succeed(missing)
    }
    t.equal(answers['1'], 'missing')
    t.same(log(), ['0', '1 2', '1', '1', '1'])
  })
})

t.test('outages', async (t) => {
  t.test('a database away for a whole deadline is not waited for until a probe finds it', async (t) => {
    const { submit, attempts, last, answers, clock, probes, group, log } = setUp({ lanes: 2 })
    submit('0')
    await last().succeed()
    await clock.move(1)
    submit('1')
    await last().fail('uncertain')
    await clock.move(5000)
    submit('2')
    await last().fail('uncertain')
    await clock.moveTo(10_000)
    t.notOk(group.databaseDown)
    await clock.moveTo(10_001)
    t.equal(answers['1'], 'unknown')
    t.same(log(), ['0', '1', '1', '2', '2'])
    await attempts[2]?.fail('uncertain')
    t.ok(group.databaseDown)
    submit('3')
    await clock.settle()
    t.equal(answers['3'], 'databaseDown')
    t.same(
      probes.map(({ at }) => at),
      [10_001]
    )
    await clock.move(200)
    await probes[0]?.fail()
    await clock.move(499)
    t.equal(probes.length, 1, 'one probe every 500 ms')
    await clock.move(1)
    t.equal(probes.length, 2)
    await last().fail('uncertain')
    const before = log().length
    await probes[1]?.succeed()
    t.notOk(group.databaseDown)
    t.same(log().slice(before), ['2'], 'a lane in its pause goes on at once')
    submit('4')
    t.same(last().labels, '4')
    await last().succeed()
    t.equal(answers['4'], 'stored 4')
    await clock.move(1000)
    t.equal(probes.length, 2)
  })

  t.test('a row that gets through ends the outage; a late probe does not disturb', async (t) => {
    const { submit, attempts, last, clock, probes, group } = setUp({ lanes: 3 })
    await clock.move(1)
    submit('1')
    await clock.move(5000)
    submit('2')
    await clock.move(5000)
    t.ok(group.databaseDown)
    await probes[0]?.fail()
    t.equal(clock.pending, 2)
    await attempts[1]?.fail('fatal')
    t.notOk(group.databaseDown, 'an answer, though an error')
    t.equal(clock.pending, 1, 'no more probes')
    await clock.move(1)
    await attempts[0]?.fail('uncertain')

    submit('3')
    await clock.move(5000)
    submit('4')
    await clock.move(5000)
    t.ok(group.databaseDown)
    await last().succeed()
    t.notOk(group.databaseDown)
    await clock.move(1)
    submit('5')
    await clock.move(10_000)
    t.ok(group.databaseDown)
    t.equal(probes.length, 2, 'the probe that still runs serves the new outage')
    await probes[1]?.fail()
    await clock.move(500)
    t.equal(probes.length, 3)
    for (const attempt of attempts) await attempt.fail('uncertain')
    await group.close()
    await probes[2]?.fail()
    t.equal(clock.pending, 0, 'nothing is left behind')
  })

  t.test('a probe that finds the database is a sign of life for those who waited meanwhile', async (t) => {
    const { submit, last, clock, probes, group, answers } = setUp()
    await clock.move(1)
    submit('1')
    await clock.move(5000)
    submit('2')
    await clock.move(5000)
    t.ok(group.databaseDown)
    await probes[0]?.succeed()
    t.notOk(group.databaseDown)
    await last().fail('uncertain')
    await clock.move(5000)
    t.same(answers, { '1': 'unknown', '2': 'unknown' })
    t.notOk(group.databaseDown)
  })

  t.test('an attempt that is given up is no sign of life, a queue that is too long no outage', async (t) => {
    const { submit, last, clock, group, answers } = setUp()
    submit('1', '2')
    await clock.move(10_000)
    t.ok(group.databaseDown)
    await last().fail('fatal')
    t.ok(group.databaseDown)

    const busy = setUp({ batchRows: 1 })
    busy.submit('1', '2', '3')
    await busy.clock.move(5000)
    await busy.last().succeed()
    await busy.clock.move(5000)
    t.same(busy.answers, { '1': 'stored 1', '2': 'unknown', '3': 'expired' })
    t.notOk(busy.group.databaseDown)
    t.same(answers, { '1': 'unknown', '2': 'expired' })
  })
})

t.test('the end', async (t) => {
  t.test('close refuses new rows and waits for the answers of the others', async (t) => {
    const { submit, last, answers, group, clock } = setUp()
    submit('1', '2')
    let closed = false
    void group.close().then(() => (closed = true))
    submit('3')
    await last().succeed()
    t.same(answers, { '1': 'stored 1', '3': 'closed' })
    t.notOk(closed)
    await last().succeed()
    t.ok(closed)
    t.equal(clock.pending, 0, 'no timer keeps the process')
    await group.close()
  })

  t.test('close waits for rows that pause outside the lanes and for attempts given up', async (t) => {
    const { submit, last, answers, group, clock } = setUp()
    submit('1')
    await last().fail('locked')
    let closed = false
    void group.close().then(() => (closed = true))
    await clock.move(9000)
    t.notOk(closed)
    await clock.move(1000)
    t.same(answers, { '1': 'unknown' })
    t.notOk(closed)
    await last().fail('uncertain')
    t.ok(closed)
    t.equal(clock.pending, 0)
  })

  t.test('an idle group closes at once', async () => {
    await setUp().group.close()
  })
})

t.test('each attempt is reported', async (t) => {
  const batches: Batch[] = []
  const { submit, last, clock } = setUp({}, (batch) => batches.push(batch))
  submit('1', '2', '3')
  await clock.move(3)
  await last().succeed()
  await clock.move(4)
  await last().fail('uncertain')
  t.same(batches, [
    { rows: 1, ms: 3, outcome: 'written' },
    { rows: 2, ms: 4, outcome: 'uncertain' }
  ])
})

t.test('with the real clock, a row expires and names its last trouble', async (t) => {
  const error = new Error('no connection')
  const group = createGroupCommit<Plant, string>(
    {
      write: () => Promise.reject(error),
      classify: () => 'transient',
      mayBeOneRows: () => false,
      probe: async () => {}
    },
    { ...roomy, deadlineMs: 50 }
  )
  const began = performance.now()
  const answer = group.submit({ id: 1n, bytes: 1, label: '' })
  await t.rejects(answer, new NotCommitted('expired', error))
  await t.rejects(answer, { cause: error, message: 'the deadline has passed; the row is not stored' })
  t.ok(performance.now() - began < 10_000)
  await group.close()
})
