/** Batches that fail, and are tried in parts. The store's attempts are ended by hand. */
import t from 'tap'
import { plan } from '../../src/group-commit/trial.ts'
import { setUp } from '../support/scripted-store.ts'

t.test('the plan for rows that failed together', async (t) => {
  const given = (attemptMs: number) => plan('slow', attemptMs, 12_000)
  t.strictSame(given(0), { parts: 16, limitMs: 500, doubt: 'slow' })
  t.strictSame(given(100), { parts: 10, limitMs: 500, doubt: 'slow' })
  t.strictSame(given(300), { parts: 3, limitMs: 1_200, doubt: 'slow' })
  t.strictSame(given(900), { parts: 2, limitMs: 3_600, doubt: 'slow' }, 'two at the least')
  t.strictSame(plan('refused', 100, 12_000), { parts: 2 })
  t.strictSame(plan('locked', 100, 12_000), { parts: 16 })
  t.strictSame(plan('transient', 100, 12_000), { parts: 16, doubt: 'transient' })
  t.strictSame(plan('fatal', 100, 12_000), { parts: 16, doubt: 'fatal' })
})

t.test('a batch that was cut off', async (t) => {
  t.test('three of its parts are cut off, and nothing is written meanwhile: it goes by halves', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('0', '1', '2', '3', '4', '5')
    await last().succeed()
    submit('6')
    for (let count = 0; count < 4; count++) await last().fail('slow')
    t.same(log(), ['0', '1 2 3 4 5', '1', '2', '3', '1 4 5'])
    for (const _ of [1, 2, 3]) await last().succeed()
    t.same(log().slice(6), ['6', '2 3'], 'in turn with the others')
    t.equal(Object.keys(outcomes).length, 7)
  })

  t.test('its parts have little time; who is slow in itself waits alone, and has all of it', async (t) => {
    const { submit, last, log, outcomes, clock, group } = setUp()
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
    t.same(outcomes, { '0': 'stored 0', '2': 'stored 2', '3': 'stored 3' })
    await last().fail('slow')
    t.same(log(), ['0', '1 2 3', '1', '2', '3', '1'])
    t.equal(group.busyLanes, 0, 'it waits outside the lanes')
    await clock.move(20)
    t.equal(clock.pending, 1, 'for the deadline')
    await last().succeed()
    t.same(log().at(-1), '1')
    t.equal(outcomes['1'], 'stored 1')
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

  t.test('an attempt that follows an uncertain one has no limit', async (t) => {
    const { submit, last, clock } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('slow')
    t.same(last().labels, '1')
    await last().fail('uncertain')
    await clock.move(20)
    t.same(last().labels, '1')
    t.equal(clock.pending, 1, 'for the deadline')
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

  t.test('a row that waited for a lock has its turn whatever time it took', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2', '3')
    await clock.move(1_000)
    await last().fail('locked')
    await clock.move(10)
    await last().succeed()
    t.same(log(), ['1', '2', '1'])
  })

  t.test('others do not get their time back from an attempt with what has failed', async (t) => {
    const { submit, attempts, log, clock } = setUp({ lanes: 2, batchRows: 1 })
    submit('1', '2')
    await attempts[0]?.fail('locked')
    await clock.move(10)
    submit('3', '4', '5')
    t.same(log(), ['1', '2', '1'])
    await clock.move(990)
    await attempts[1]?.fail('slow')
    await attempts[2]?.succeed()
    t.same(log().slice(3), ['3', '4'])
    await clock.move(100)
    await attempts[3]?.succeed()
    t.same(log().slice(3), ['3', '4', '5'])
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

t.test(
  "a row that expires is answered with the cause of its last failure, its own or everyone's",
  async (t) => {
    for (const trouble of ['slow', 'refused', 'fatal'] as const) {
      const { submit, last, causes, clock } = setUp()
      submit('0', '1', '2')
      await last().succeed()
      if (trouble === 'fatal') await last().fail('uncertain')
      await clock.move(10)
      await last().fail(trouble)
      await clock.moveTo(10_000)
      t.match(causes['2'], { trouble })
    }
  }
)

t.test("a failure that may be one row's or everyone's", async (t) => {
  t.test("a row may expire before it is found to be everyone's", async (t) => {
    const { submit, last, log, outcomes, clock, group } = setUp()
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
    t.same(outcomes, { '0': 'stored 0', '1': 'expired', '2': 'fatal' })
    t.equal(group.rows, 0)
  })

  t.test("a breakage is everyone's when each of the parts has met it, and 16 rows alone", async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit(...Array.from({ length: 18 }, (_, id) => String(id)))
    await last().succeed()
    for (let count = 0; count < 1 + 9 + 15; count++) await last().fail('fatal', 'oneRows')
    t.same(outcomes, { '0': 'stored 0' })
    await last().fail('fatal', 'oneRows')
    t.same(Object.keys(outcomes).length, 18)
    t.equal(log().length, 2 + 9 + 16)
  })

  t.test('parts in other lanes may fail when that is known already', async (t) => {
    const { submit, attempts, log, outcomes, group } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2')
    await attempts[0]?.succeed()
    await attempts[1]?.succeed()
    await attempts[2]?.fail('fatal', 'oneRows')
    t.same(log(), ['0', '9', '1 2', '1', '2'])
    await attempts[3]?.fail('fatal', 'oneRows')
    t.same(log().at(-1), '1', 'it is tried again until it is known')
    await attempts[4]?.fail('fatal', 'oneRows')
    t.match(outcomes, { '2': 'fatal' })
    await attempts[5]?.fail('fatal', 'oneRows')
    t.match(outcomes, { '1': 'fatal' })
    t.equal(group.busyLanes, 0)
  })

  t.test('transient ones are looked for after three in a row', async (t) => {
    const { submit, last, log, outcomes, clock } = setUp()
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
    for (let count = 0; count < 3; count++) {
      t.same(last().labels, '2')
      await last().fail('transient', 'oneRows')
    }
    submit('3')
    t.same(last().labels, '3', 'it waits outside the lanes')
    t.match(outcomes, { '0': 'stored 0', '1': 'stored 1' })
    t.same(log().length, 15)
  })

  t.test('a part that fails while others are written goes behind them, three times', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit(...Array.from({ length: 33 }, (_, id) => String(id)))
    await last().succeed()
    for (let count = 0; count < 3; count++) {
      await last().fail('transient', 'oneRows')
      await clock.moveTo(clock.nextAt as number)
    }
    const before = log().length
    await last().succeed()
    await last().fail('transient', 'oneRows')
    for (let count = 0; count < 3; count++) await last().succeed()
    t.equal(last().labels, '3 4 5 6')
    t.equal(log().length, before + 5, 'without a pause; after a part that is written there are larger ones')
    await last().fail('transient', 'oneRows')
    t.equal(last().labels, '3 4 5 6')
    await last().fail('transient', 'oneRows')
    t.same(log().slice(-3), ['3 4 5 6', '3 4 5 6', '3'])
    for (const labels of ['3', '4 5']) {
      t.equal(last().labels, labels)
      await last().succeed()
    }
    t.equal(last().labels, '6')
    await last().succeed()
  })

  t.test(
    "transient ones of all parts are everyone's: they stay together, and their pauses grow",
    async (t) => {
      const { submit, last, log, clock } = setUp()
      submit('0', '1', '2')
      await last().succeed()
      const pauses: number[] = []
      for (let count = 0; count < 6; count++) {
        const began = clock.now()
        await last().fail('transient', 'oneRows')
        await clock.moveTo(clock.nextAt as number)
        pauses.push(clock.now() - began)
      }
      t.same(log(), ['0', '1 2', '1 2', '1 2', '1', '2', '1 2', '1 2'])
      t.same(pauses, [10, 20, 40, 80, 160, 320])
    }
  )

  t.test('rows may expire in the pause before they are looked for', async (t) => {
    const { submit, last, log, outcomes, clock, group } = setUp({ deadlineMs: 100 })
    submit('1')
    for (const at of [10, 30]) {
      await last().fail('transient', 'oneRows')
      await clock.moveTo(at)
    }
    await clock.moveTo(90)
    await last().fail('transient', 'oneRows')
    await clock.moveTo(100)
    t.same(outcomes, { '1': 'expired' })
    t.same(log(), ['1', '1', '1'])
    t.equal(group.busyLanes, 0)
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
    await last().succeed()
    await last().succeed()
    submit('4')
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
    const { submit, attempts, clock, last, log, outcomes } = setUp({ lanes: 2 })
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
    t.same(outcomes, { '8': 'stored 8', '9': 'unknown', '1a': 'unknown' })
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
    const { submit, attempts, clock, last, log, outcomes } = setUp()
    submit('0', '1')
    await clock.move(1)
    submit('2')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    await last().fail('refused')
    t.same(log(), ['0', '1 2', '2'])
    await last().succeed()
    t.same(outcomes, { '0': 'stored 0', '1': 'unknown', '2': 'stored 2' })
  })
})

t.test('locks', async (t) => {
  t.test('a locked row is tried again alone, outside the lanes, until its deadline', async (t) => {
    const { submit, last, log, outcomes, clock, group } = setUp()
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
    while (!outcomes['1']) {
      await last().fail('locked')
      await clock.moveTo(clock.nextAt ?? 0)
    }
    t.equal(outcomes['1'], 'expired')
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

  t.test('a lane that others leave is not for a second locked row', async (t) => {
    const { submit, attempts, last, log, clock } = setUp({ lanes: 2 })
    submit('1', '2')
    await attempts[0]?.fail('locked')
    await attempts[1]?.fail('locked')
    await clock.move(10)
    submit('3')
    await last().succeed()
    t.same(log(), ['1', '2', '1', '3'])
    await attempts[2]?.succeed()
    t.same(log(), ['1', '2', '1', '3', '2'])
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
