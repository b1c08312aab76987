/** What a failed attempt means for its rows. The store's attempts are ended by hand. */
import t from 'tap'
import { missing } from '../../src/group-commit/types.ts'
import { setUp } from '../support/scripted-store.ts'

t.test('transient failures', async (t) => {
  t.test('the batch keeps its lane and is repeated after growing pauses, its rows marked', async (t) => {
    const { submit, attempts, last, clock, outcomes, log } = setUp({ lanes: 2 })
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
    t.same(outcomes, { '1': 'stored 1' })
    t.same(log().slice(-2), ['2', '3 4'])
  })

  t.test('only an attempt whose outcome is open marks its rows, and for good', async (t) => {
    const { submit, last, clock, outcomes } = setUp({ deadlineMs: 100 })
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
    while (outcomes['2'] === undefined) {
      await last().fail('transient')
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.same(outcomes, { '1': 'stored 1', '2': 'expired' })
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
    const { submit, last, log, outcomes, group } = setUp()
    submit('0', '1', '2', '3', '4', '5')
    await last().succeed()
    await last().fail('refused')
    await last().fail('refused')
    await last().succeed()
    await last().succeed()
    await last().fail('refused')
    t.same(log(), ['0', '1 2 3 4 5', '1 2 3', '4 5', '1 2', '3'])
    t.match(outcomes, { '1': 'stored 1', '2': 'stored 2', '3': 'refused', '4': 'stored 4', '5': 'stored 5' })
    t.equal(group.busyLanes, 0)
  })

  t.test('a row may expire between the halves', async (t) => {
    const { submit, last, log, outcomes, clock, attempts } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2a', '2b')
    await attempts[0]?.succeed()
    await clock.move(1)
    submit('3', '4')
    await last().fail('refused')
    t.same(log(), ['0', '9', '1 2a', '1'])
    await clock.moveTo(10_000)
    t.same(outcomes, { '0': 'stored 0', '9': 'unknown', '1': 'unknown', '2a': 'expired', '2b': 'expired' })
    submit('2c')
    await last().succeed()
    t.same(log(), ['0', '9', '1 2a', '1', '2c 3 4'])
  })
})

t.test('a row is not called refused where an earlier attempt may have stored it', async (t) => {
  const { submit, last, outcomes, clock } = setUp()
  submit('1')
  await last().fail('uncertain')
  await clock.move(20)
  await last().fail('refused')
  t.same(outcomes, { '1': 'unknown' })
})

t.test('a row that may be stored is asked for again after a fatal failure, too', async (t) => {
  const { submit, last, log, outcomes, clock } = setUp()
  submit('1')
  await last().fail('uncertain')
  await clock.move(20)
  await last().fail('fatal')
  t.same(outcomes, {}, 'it is neither given up nor called an error')
  await clock.move(20)
  await last().succeed()
  t.same(log(), ['1', '1', '1'])
  t.same(outcomes, { '1': 'stored 1' })
})

t.test('other outcomes', async (t) => {
  t.test('a fatal failure fails every row of the batch', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('fatal')
    t.same(outcomes, { '0': 'stored 0', '1': 'fatal', '2': 'fatal' })
    t.same(log(), ['0', '1 2'])
  })

  t.test('a row alone gets the failure that it may have caused', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('1')
    await last().fail('fatal', 'oneRows')
    t.same(outcomes, { '1': 'fatal' })
    t.same(log(), ['1'])
  })

  t.test("a row's own error is its caller's only", async (t) => {
    const { submit, last, outcomes } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().succeed('replayed', new Error('conflict'))
    t.same(outcomes, { '0': 'stored 0', '1': 'replayed', '2': 'conflict' })
  })

  t.test('a missing row is tried three times more, then fails', async (t) => {
    const { submit, last, log, outcomes, clock } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().succeed(missing)
    t.match(outcomes, { '2': 'stored 2' })
    for (const pause of [10, 20, 40]) {
      t.notOk('1' in outcomes)
      await clock.move(pause)
      t.same(last().labels, '1')
      await last().succeed(missing)
    }
    t.equal(outcomes['1'], 'missing')
    t.same(log(), ['0', '1 2', '1', '1', '1'])
  })
})
