/** How many rows may wait, and how long. The store's attempts are ended by hand. */
import t from 'tap'
import { failureOf, nothing, type Plant, roomy, setUp } from '../../harness/stores/scripted-store.ts'
import { createEstimate } from '../../src/group-commit/estimate.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import { NotCommitted } from '../../src/shared/write-failure.ts'

/** What a lane that is busy may take of a deadline of a second, if there is one lane. */
const busyMs = 1_000 / 3

t.test('bounds', async (t) => {
  t.test('rows whose time is up before their turn comes are refused at once', async (t) => {
    const { submit, outcomes, last, clock, group } = setUp({ batchRows: 2, deadlineMs: 1_000 })
    /** How many of forty more rows are taken; the last of them stay in a lane. */
    let id = 0
    const taken = async () => {
      const before = group.load.rows
      for (let count = 0; count < 40; count++) submit(String(++id))
      await clock.settle()
      return group.load.rows - before
    }
    const write = async (ms: number) => {
      await clock.move(ms)
      await last().succeed()
    }
    submit(String(++id))
    submit(String(++id), String(++id))
    // Half a batch counts for a 32nd, a full one for a 16th.
    await write(400)
    t.equal(group.load.expectedMs, 12.5 + busyMs)
    await write(400)
    t.equal(group.load.expectedMs, 0)
    t.equal(await taken(), 10, '9 rows and the lane take 499 ms')
    t.equal(group.load.expectedMs, 10 * 18.359375 + busyMs)
    t.equal(outcomes[String(id)], 'full')
    t.equal(outcomes[String(id - 30)], undefined)
    await write(0)
    t.equal(await taken(), 4, 'half a batch in no time makes each row quicker')
    for (let count = 0; count < 16; count++) await write(0)
    t.equal(group.load.rows, 0)
    t.equal(await taken(), 40)
  })

  t.test('a caller with little of what waits is admitted while others fill half of the time', async (t) => {
    const { submit, submitTogether, last, clock, group } = setUp({ batchRows: 2, deadlineMs: 1_200 })
    submitTogether('1', '2')
    await clock.move(400)
    await last().succeed()
    for (let id = 3; id < 60; id++) submit(String(id))
    t.equal(group.load.expectedMs, 612.5)
    t.equal(group.refusal(1), 'full')
    t.equal(group.refusal(0.96), 'full')
    t.equal(group.refusal(0.95), undefined)
    t.equal(group.refusal(0), undefined)
  })

  t.test('some slow rows one after the other refuse nobody', async (t) => {
    const { submit, submitTogether, last, clock, outcomes } = setUp({
      lanes: 3,
      batchRows: 2,
      deadlineMs: 3_000
    })
    for (let id = 0; id < 6; id += 2) {
      submitTogether(String(id), String(id + 1))
      await clock.move(400)
      await last().succeed()
    }
    const before = Object.keys(outcomes).length
    for (let id = 6; id < 66; id++) submit(String(id))
    await clock.settle()
    t.equal(Object.keys(outcomes).length, before)
  })

  t.test('a batch may be full in bytes', async (t) => {
    const { submit, last, clock, group } = setUp({ batchBytes: 10 })
    submit('1')
    await clock.move(400)
    await last().succeed()
    submit('2')
    t.equal(group.load.expectedMs, 25 + 400, 'and a lane as long as it took last')
  })

  t.test('nothing is learned from an insert that leaves out all rows', async (t) => {
    const { submit, last, clock, group } = setUp()
    submit('1')
    await clock.move(400)
    await last().succeed(nothing)
    t.equal(group.load.expectedMs, 0)
  })

  t.test('an attempt that fails, however late, refuses nobody', async (t) => {
    const { submit, outcomes, last, clock, group } = setUp({ batchRows: 1, deadlineMs: 1_000 })
    submit('1')
    await clock.move(900)
    await last().fail('away')
    submit('2', '3', '4')
    await clock.settle()
    t.equal(group.load.expectedMs, 0)
    t.same(outcomes, {})
  })
})

t.test('the wait is estimated from the time and rows of batches, and the busy lanes', async (t) => {
  const estimate = createEstimate({ lanes: 2, batchRows: 10, batchBytes: 100, deadlineMs: 10_000 })
  t.equal(estimate.expectMs(1_000, 1_000), 0, 'nothing is expected to take long until that is learnt')
  t.equal(
    estimate.expectMs(1_000, 1_000, 50),
    50,
    'the newest attempt has run for so long, and no lane is free'
  )
  estimate.learn(10, 20, 400)
  t.equal(estimate.expectMs(10, 0), 12.5, 'a batch of 25 ms, in one of two lanes')
  t.equal(estimate.expectMs(30, 0), 37.5)
  t.equal(estimate.expectMs(10, 400), 50, 'the bytes make four batches')
  t.equal(estimate.expectMs(10, 0, 0), 412.5, 'no lane is free: as long as the slowest of the last, and then')
  t.equal(estimate.expectMs(10, 0, 500), 512.5)
  t.equal(estimate.expectMs(10, 0, 9_000), 12.5 + 10_000 / 3, 'which refuses nobody alone')
  estimate.learn(1, 50, 180)
  t.equal(estimate.expectMs(10, 0), 14.921875, 'half a batch counts half')
  estimate.learn(1, 400, 40)
  t.equal(estimate.expectMs(10, 0), 12.44140625, 'a row of four batches took 10 ms for each')
})

t.test('a lock is waited for as long as two slow writes take, from 25 to 250 ms', async (t) => {
  const estimate = createEstimate({ ...roomy, lanes: 3 })
  const locks = [1, 1, 60, 20, 5, 100_000, 5].map((ms) => {
    const { lockMs, limitMs } = estimate.limitsOf('newRows', 0)
    t.ok(lockMs <= Math.ceil(limitMs / 2), 'it is not cut off before')
    t.equal(estimate.limitsOf('lookUp', 1).limitMs, Math.min(2 * limitMs, 10_000 / 3))
    estimate.learn(1, 1, ms)
    return lockMs
  })
  t.strictSame(locks, [25, 25, 25, 120, 100, 78, 250])
})

t.test('a lock is waited for half of the limit at most, where the deadline is short', async (t) => {
  for (const deadlineMs of [1, 5, 100, 1_000]) {
    const estimate = createEstimate({ ...roomy, deadlineMs })
    for (const ms of [0, 10, 1_000]) {
      estimate.learn(1, 1, ms)
      const { lockMs, limitMs } = estimate.limitsOf('newRows', 0)
      t.ok(lockMs <= Math.ceil(limitMs / 2), `${lockMs} of ${limitMs} ms`)
      t.ok(Number.isInteger(lockMs) && lockMs >= 1, 'PostgreSQL takes 0 for no limit')
    }
  }
})

t.test('a slice is twice an average attempt, at least 25 ms, doubled up to a third of all', async (t) => {
  const estimate = createEstimate({ ...roomy, lanes: 3 })
  const slices = (...numbers: number[]) =>
    numbers.map((slice) => estimate.limitsOf('firstTrial', slice).limitMs)
  t.strictSame(slices(0, 1, 7, 100), [25, 50, 3_200, 10_000 / 3])
  for (const ms of [100, 20]) estimate.learn(1, 1, ms)
  t.strictSame(slices(0, 1, 100), [180, 360, 10_000 / 3])
})

t.test('new rows get twice the time after each cut-off, until some are written', async (t) => {
  const estimate = createEstimate({ ...roomy, lanes: 3 })
  const limits = Array.from({ length: 7 }, () => {
    const { limitMs } = estimate.limitsOf('newRows', 0)
    estimate.noteCutOff()
    return limitMs
  })
  t.strictSame(limits, [100, 200, 400, 800, 1_600, 3_200, 10_000 / 3])
  estimate.learn(1, 1, 0)
  t.equal(estimate.limitsOf('newRows', 0).limitMs, 100)
})

t.test('deadlines', async (t) => {
  t.test('a row of a running attempt is settled by its deadline; the last one aborts it', async (t) => {
    const { submit, outcomes, attempts, clock, group, log } = setUp()
    submit('0')
    submit('1')
    await clock.move(1)
    submit('2')
    await attempts[0]?.succeed()
    t.same(log(), ['0', '1 2'])
    await clock.moveTo(9999)
    t.same(outcomes, { '0': 'stored 0' })
    await clock.moveTo(10_000)
    t.same(outcomes, { '0': 'stored 0', '1': 'unknown' })
    t.notOk(attempts[1]?.signal.aborted, 'one still waits')
    await clock.moveTo(10_001)
    t.equal(outcomes['2'], 'unknown')
    t.ok(attempts[1]?.signal.aborted)
    submit('3')
    t.same(log(), ['0', '1 2'], 'the lane is taken until the attempt has ended')
    t.equal(group.load.busyLanes, 1)
    await attempts[1]?.fail('lost')
    t.same(log(), ['0', '1 2', '3'], 'without a pause')
  })

  t.test('an attempt that succeeds after a row has expired settles the others', async (t) => {
    const { submit, outcomes, attempts, clock, log } = setUp()
    submit('0', '1a')
    await clock.move(1)
    submit('2', '1b')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    await attempts[1]?.succeed()
    t.same(outcomes, { '0': 'stored 0', '1a': 'unknown', '2': 'stored 2' })
    t.same(log(), ['0', '1a 2', '1b'])
  })

  t.test('what was never sent, or sent without effect, has expired; the rest is unknown', async (t) => {
    const { submit, outcomes, attempts, clock } = setUp({ lanes: 2 })
    submit('1', '2', '3')
    await clock.moveTo(9_999)
    await attempts[0]?.fail('busy')
    await attempts[2]?.fail('lost')
    await clock.moveTo(10_000)
    t.same(outcomes, { '1': 'expired', '2': 'unknown', '3': 'unknown' })
  })
})

t.test('with the real clock, a row expires and names its last trouble', async (t) => {
  const failure = failureOf('away')
  const { error } = failure
  const failing = async () => ({ failure })
  const group = new GroupCommit<Plant, string>(
    { insert: failing, find: failing, commitNothing: async () => {}, probe: async () => {} },
    { ...roomy, deadlineMs: 50 }
  )
  const began = performance.now()
  const outcome = new Promise((resolve, reject) =>
    group.submit({ id: 1n, bytes: 1, label: '' }, resolve, reject)
  )
  await t.rejects(outcome, new NotCommitted('expired', error))
  await t.rejects(outcome, { cause: error, message: 'the deadline has passed; the row is not stored' })
  t.ok(performance.now() - began < 10_000)
  await group.close()
})
