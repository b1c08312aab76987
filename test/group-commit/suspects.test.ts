/** Rows whose attempt has failed, and the others meanwhile. The store's attempts are ended by hand. */
import t from 'tap'
import { setUp, type Trouble } from '../support/scripted-store.ts'

/** The time of an attempt with suspects where others are quick. */
const limitMs = 10_000 / 24

t.test('batches of suspects', async (t) => {
  t.test('rows that failed together are tried by quarters, one lane at a time', async (t) => {
    const { submitTogether, attempts, log } = setUp({ lanes: 3 })
    submitTogether(...Array.from({ length: 9 }, (_, id) => String(id)))
    await attempts[0]?.fail('busy')
    t.same(log().slice(1), ['0'], 'one goes ahead, until something is written')
    await attempts[1]?.succeed()
    t.same(log().slice(2), ['1 2 3'])
    await attempts[2]?.succeed()
    t.same(log().slice(2), ['1 2 3', '4 5 6'])
  })

  t.test('where attempts take a sixteenth of the deadline, by halves', async (t) => {
    const { submit, submitTogether, last, clock } = setUp()
    submit('0')
    await clock.move(625)
    await last().succeed()
    submitTogether('1', '2', '3', '4')
    await last().fail('busy')
    await clock.move(625)
    await last().succeed()
    t.equal(last().labels, '2 3')
  })

  t.test('a limit ends an attempt with them, in twice what the slowest of the last took', async (t) => {
    for (const [ms, limit] of [
      [1, limitMs],
      [500, 1_000]
    ] as const) {
      const { submit, last, clock } = setUp()
      submit('0')
      await clock.move(ms)
      await last().succeed()
      submit('1')
      await last().fail('lost')
      await clock.move(10)
      const began = clock.now()
      await clock.moveTo(began + limit - 1)
      t.notOk(last().signal.aborted)
      await clock.moveTo(began + limit)
      t.ok(last().signal.aborted)
    }
  })

  t.test('while nothing is written, single rows tell whose failure it is', async (t) => {
    const { submitTogether, last, log } = setUp()
    submitTogether(...Array.from({ length: 16 }, (_, id) => String(id)))
    for (let count = 0; count < 3; count++) await last().fail('broken')
    t.same(log().slice(1), ['0', '1', '2'])
    await last().succeed()
    await last().fail('broken')
    for (let count = 0; count < 4; count++) await last().succeed()
    t.same(log().slice(4), ['3 4 5 6', '7 8 9 10', '11 12 13 14', '15', '3', '4'])
  })

  t.test('one that goes ahead has half of the time that is left', async (t) => {
    const { submitTogether, last, clock } = setUp({ batchRows: 16 })
    submitTogether(...Array.from({ length: 16 }, (_, id) => String(id)))
    await clock.move(1_000)
    await last().fail('busy')
    await clock.move(4_499)
    t.notOk(last().signal.aborted)
    await clock.move(1)
    t.ok(last().signal.aborted)
  })

  t.test('one that goes ahead is slow: the others go together, with time', async (t) => {
    const { submitTogether, last, clock } = setUp({ batchRows: 16 })
    submitTogether(...Array.from({ length: 16 }, (_, id) => String(id)))
    await last().fail('busy')
    await clock.move(2_000)
    await last().succeed()
    t.equal(last().rows.length, 15)
    await clock.move(3_999)
    t.notOk(last().signal.aborted)
    await last().fail('busy')
    t.equal(last().rows.length, 8, 'what fails again is halved at least')
  })

  t.test('something was written since they failed: they have a tenth of the time', async (t) => {
    const { submitTogether, submit, attempts, last, clock } = setUp({ lanes: 2 })
    submitTogether('1', '2')
    submit('3')
    await attempts[0]?.fail('busy')
    await attempts[1]?.succeed()
    await clock.move(limitMs)
    await attempts[2]?.fail('busy')
    t.equal(last().labels, '2')
    const began = clock.now()
    await clock.moveTo(began + limitMs / 10 - 1)
    t.notOk(last().signal.aborted)
    await clock.moveTo(began + limitMs / 10)
    t.ok(last().signal.aborted)
  })

  t.test('new rows may take longer while others are written', async (t) => {
    const { submit, attempts, clock, outcomes } = setUp({ lanes: 2 })
    submit('1')
    submit('2')
    await attempts[1]?.succeed()
    await clock.move(4 * limitMs)
    t.notOk(attempts[0]?.signal.aborted)
    await attempts[0]?.succeed()
    t.same(outcomes, { '1': 'stored 1', '2': 'stored 2' })
  })

  t.test('an attempt that takes longer than their limit lets them be tried in company again', async (t) => {
    const { submitTogether, submit, attempts, last, clock } = setUp({ lanes: 2, batchRows: 16 })
    submitTogether(...Array.from({ length: 16 }, (_, id) => String(id)))
    submit('20')
    await attempts[0]?.fail('busy')
    await attempts[2]?.succeed()
    await last().fail('busy')
    t.equal(last().rows.length, 4)
    await clock.move(limitMs + 1)
    await attempts[1]?.succeed()
    await last().fail('busy')
    t.ok(last().rows.length > 4)
  })
})

t.test('a row at fault that others have failed with gets its error late', async (t) => {
  /** Fails `1` with `2` after 10 ms, then alone after 10 ms more. */
  async function fail(trouble: Trouble, { batchRows = 100, idleMs = 0 } = {}) {
    const world = setUp({ batchRows })
    const { submitTogether, last, clock } = world
    if (idleMs > 0) submitTogether('0')
    submitTogether('1', '2')
    await clock.move(idleMs)
    if (idleMs > 0) await last().succeed()
    await clock.move(10)
    await last().fail(trouble)
    await clock.move(10)
    await last().fail(trouble)
    return world
  }

  t.test('after nine times as long as it took to find, which holds up nobody but its id', async (t) => {
    const { clock, last, log, outcomes, submit, group } = await fail('refused')
    submit('3', '1b')
    await last().succeed()
    await last().succeed()
    t.same(log(), ['1 2', '1', '2', '3'])
    t.same(outcomes, { '2': 'stored 2', '3': 'stored 3' })
    const closed = group.close()
    await clock.moveTo(20 + 9 * 20 - 1)
    t.same(outcomes['1'], undefined)
    await clock.moveTo(20 + 9 * 20)
    t.same(outcomes['1'], 'refused')
    t.equal(last().labels, '1b')
    await last().succeed()
    await closed
    t.equal(clock.pending, 0)
  })

  t.test('not while the service closes', async (t) => {
    const { submitTogether, clock, last, outcomes, group } = setUp()
    submitTogether('1', '2')
    await clock.move(10)
    await last().fail('refused')
    const closed = group.close()
    await clock.move(10)
    await last().fail('refused')
    t.same(outcomes, { '1': 'refused' })
    await last().succeed()
    await closed
    t.equal(clock.pending, 0)
  })

  t.test('within half of the time that it has left', async (t) => {
    const { clock, outcomes } = await fail('refused', { idleMs: 9_900 })
    await clock.moveTo(9_960)
    t.same(outcomes, { '0': 'stored 0', '1': 'refused' })
  })

  t.test('at once, if it was alone each time, or all lack something', async (t) => {
    t.match((await fail('refused', { batchRows: 1 })).outcomes, { '1': 'refused', '2': 'refused' })
    const { submitTogether, clock, last, outcomes } = setUp()
    submitTogether('1', '2')
    await clock.move(10)
    await last().fail('broken')
    await clock.move(10)
    await last().fail('gone')
    t.same(outcomes, { '1': 'gone' })
  })

  t.test("at once, once it is everybody's failure", async (t) => {
    const { submitTogether, clock, last, log, outcomes } = setUp()
    submitTogether(...Array.from({ length: 64 }, (_, id) => String(id)))
    const failOne = () => clock.move(1).then(() => last().fail('broken'))
    while (log().length <= 1 + 16) await failOne()
    t.same(Object.values(outcomes), ['broken'], 'the sixteenth that was alone')
    await failOne()
    t.equal(Object.keys(outcomes).length, 1 + 16)
  })
})

t.test("sixteen rows fail alone, and nothing is written: it is everybody's failure", async (t) => {
  t.test('of one for good, all get the error', async (t) => {
    const { submitTogether, last, outcomes } = setUp()
    submitTogether(...Array.from({ length: 64 }, (_, id) => String(id)))
    while (Object.keys(outcomes).length < 16) await last().fail('broken')
    for (let count = 0; count < 3; count++) {
      t.equal(last().rows.length, 16, 'those that were not alone yet stay together')
      await last().fail('broken')
    }
    t.equal(Object.keys(outcomes).length, 64)
    submitTogether('100', '101')
    await last().fail('broken')
    t.equal(last().labels, '100', 'what failed before they came says nothing of them')
    await last().succeed()
    t.match(outcomes, { '100': 'stored 100' })
  })

  t.test('of one that may end, all wait', async (t) => {
    const { submitTogether, last, log, clock, outcomes } = setUp()
    submitTogether(...Array.from({ length: 64 }, (_, id) => String(id)))
    for (let count = 0; count < 1 + 16; count++) await last().fail('busy')
    const before = log().length
    submitTogether('100')
    t.equal(log().length, before + 1, 'new rows have not failed')
    t.equal(last().labels, '100')
    await last().succeed()
    t.same(outcomes, { '100': 'stored 100' })
    t.ok(last().rows.length > 1, 'and show that it has ended')
    t.equal(clock.now(), 0)
  })

  t.test('of rows that stay together one goes ahead each time, and shows that it is not', async (t) => {
    const { submitTogether, last, log, clock } = setUp()
    submitTogether(...Array.from({ length: 64 }, (_, id) => String(id)))
    for (let count = 0; count < 1 + 16; count++) await last().fail('busy')
    const before = log().length
    await clock.moveTo(clock.nextAt as number)
    t.equal(last().rows.length, 16)
    await last().fail('busy')
    t.equal(log().length, before + 1, 'after a pause')
    while (log().length === before + 1) await clock.moveTo(clock.nextAt as number)
    t.equal(last().rows.length, 1)
    await last().succeed()
    t.equal(last().rows.length, 16)
    await last().succeed()
    await last().fail('busy')
    t.equal(last().rows.length, 15)
    await last().succeed()
    t.equal(last().rows.length, 4, 'the others are told apart again')
  })
})

t.test('a row that fails alone', async (t) => {
  t.test('rests outside the lanes in growing pauses, until its deadline', async (t) => {
    const { submit, last, attempts, outcomes, clock, group } = setUp()
    submit('1')
    for (let count = 0; count < 8; count++) {
      await last().fail('busy')
      t.equal(group.load.busyLanes, 0)
      await clock.moveTo(clock.nextAt as number)
    }
    const times = attempts.map(({ at }, index) => at - (attempts[index - 1]?.at ?? 0))
    t.same(times, [0, 10, 20, 40, 80, 160, 320, 500, 500])
    while (!outcomes['1']) {
      await last().fail('busy')
      await clock.moveTo(clock.nextAt as number)
    }
    t.equal(outcomes['1'], 'expired')
    t.equal(clock.now(), 10_000)
  })

  t.test('that expires while it rests leaves nothing behind', async (t) => {
    const { submit, last, outcomes, clock } = setUp()
    submit('1')
    await clock.moveTo(9_995)
    await last().fail('busy')
    await clock.moveTo(10_000)
    t.same(outcomes, { '1': 'expired' })
    t.equal(clock.pending, 0)
  })

  t.test('is tried alone from then on, and so is the row after it', async (t) => {
    const { submit, last, log, clock } = setUp()
    submit('1a')
    await last().fail('busy')
    submit('2')
    await clock.move(10)
    submit('1b', '3')
    for (const _ of [1, 2, 3]) await last().succeed()
    t.same(log(), ['1a', '2', '1a', '1b', '3'])
  })

  t.test('many of them take one lane at most', async (t) => {
    const { submit, last, log, clock, attempts } = setUp({ lanes: 2 })
    submit('1', '2')
    await attempts[0]?.fail('busy')
    await attempts[1]?.fail('busy')
    await clock.move(10)
    t.same(log(), ['1', '2', '1'], 'the second waits though a lane is free')
    submit('3', '4')
    t.same(last().labels, '3')
    await attempts[2]?.fail('busy')
    t.same(log(), ['1', '2', '1', '3', '2'])
  })

  t.test('does not come again before the others had as much time', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2')
    await last().fail('busy')
    await last().fail('busy')
    submit('3', '4', '5', '6', '7')
    await clock.move(10)
    await last().succeed()
    t.same(log().slice(2), ['3', '1'])
    await clock.move(300)
    await last().fail('busy')
    for (let count = 0; count < 3; count++) {
      await clock.move(100)
      await last().succeed()
    }
    t.same(log().slice(2), ['3', '1', '4', '5', '6', '2'])
  })

  t.test('that held a lane goes after the others until they had as much time', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2', '3', '4')
    await clock.move(2_000)
    await last().fail('lost')
    for (const ms of [500, 1_499, 10]) {
      await clock.move(ms)
      await last().succeed()
    }
    t.same(log(), ['1', '2', '3', '4', '1'])
    submit('5', '6')
    await last().fail('lost')
    for (let count = 0; count < 2; count++) await last().succeed()
    t.same(log().slice(5), ['5', '6'])
  })

  t.test('has its turn at once where nobody waits', async (t) => {
    const { submit, last, log, clock } = setUp({ batchRows: 1 })
    submit('1', '2')
    await last().fail('busy')
    await last().fail('busy')
    await clock.move(300)
    await last().fail('busy')
    t.same(log(), ['1', '2', '1', '2'])
  })
})

t.test('rows expire while they are told apart', async (t) => {
  t.test('between two attempts: the next of the id continues', async (t) => {
    const { submit, last, log, outcomes, clock, attempts } = setUp({ lanes: 2 })
    submit('0', '9', '1', '2a', '2b')
    await attempts[0]?.succeed()
    await clock.move(1)
    submit('3')
    await last().fail('refused')
    t.same(log(), ['0', '9', '1 2a', '1'])
    await clock.moveTo(10_000)
    t.match(outcomes, { '1': 'unknown', '2a': 'expired', '2b': 'expired' })
    submit('2c')
    await last().succeed()
    t.same(last().labels, '2c 3')
  })

  t.test('in an attempt: they keep their id until it has ended', async (t) => {
    const { submit, attempts, clock, last, log, outcomes } = setUp({ lanes: 2 })
    submit('8', '9', '1a')
    await clock.move(1)
    submit('2', '1b')
    await attempts[0]?.succeed()
    await clock.moveTo(10_000)
    await attempts[1]?.succeed()
    t.same(log(), ['8', '9', '1a 2'], 'the expired row keeps its id while its attempt runs')
    await last().fail('lost')
    t.same(log(), ['8', '9', '1a 2', '2', '1b'])
    t.same(outcomes, { '8': 'stored 8', '9': 'unknown', '1a': 'unknown' })
  })
})
