/** Rows whose attempt has failed, and the others meanwhile. The store's attempts are ended by hand. */
import t from 'tap'
import { nothing, setUp } from '../../harness/stores/scripted-store.ts'
import type { FailureKind } from '../../src/shared/write-failure.ts'

const ids = (count: number) => Array.from({ length: count }, (_, id) => String(id))

t.test('rows that failed together', async (t) => {
  t.test('are tried by quarters; after four successes more go together, until one fails', async (t) => {
    const { submitTogether, last, attempts } = setUp()
    submitTogether(...ids(64))
    for (let trial = 0; trial < 3; trial++) await last().fail('refused')
    for (let trial = 0; trial < 5; trial++) await last().succeed()
    submitTogether('64')
    await last().succeed()
    await last().fail('refused')
    t.same(
      attempts.map(({ rows }) => rows.length),
      [64, 16, 16, 16, 16, 4, 4, 4, 8, 1, 4]
    )
  })

  t.test('leave one lane to the others', async (t) => {
    const { submitTogether, submit, attempts, log } = setUp({ lanes: 3 })
    submitTogether(...ids(8))
    await attempts[0]?.fail('busy')
    t.equal(log().length, 3)
    submit('20')
    t.equal(log().at(-1), '20')
  })

  t.test('take turns with the others in a single lane', async (t) => {
    const { submitTogether, submit, last, clock, log } = setUp()
    submitTogether('0', '1', '2')
    for (const _ of [1, 2]) await last().fail('busy')
    await clock.move(10)
    submit('20', '21')
    for (let count = 0; count < 4; count++) await last().succeed()
    t.same(log().slice(2), ['1', '0', '2', '20 21'])
  })

  t.test('take turns by their callers', async (t) => {
    const { submitTogether, last } = setUp()
    submitTogether(...ids(15).map((id) => `${id}@a`), ...[20, 21, 22].map((id) => `${id}@b`), '30@c')
    await last().fail('refused')
    await last().fail('refused')
    t.equal(last().labels, '20@b 21@b 22@b 30@c')
  })
})

t.test('slices', async (t) => {
  /** Lets a row fail alone until its deadline; returns when each attempt had half of its limit, and how long it waited for a lock. */
  async function fail(count: number, { usualMs = 0, lanes = 2 } = {}) {
    const { submit, last, clock, commits, attempts } = setUp({ lanes })
    submit('0')
    await clock.move(usualMs)
    await commits[0]?.succeed()
    await last().succeed()
    submit('1')
    const times: number[] = []
    const locks: (number | undefined)[] = []
    while (times.length < count) {
      const { at, signal, lockMs } = last()
      const before = commits.length
      while (commits.length === before) await clock.moveToNext()
      times.push(clock.now() - at)
      locks.push(lockMs)
      t.notOk(signal.aborted)
      await commits.at(-1)?.succeed()
      await clock.moveToNext()
      t.ok(signal.aborted, 'at its limit, as it is slow and not the database')
      t.ok(Math.abs(clock.now() - at - (times.at(-1) as number) * 2) < 0.001)
      const tried = attempts.length
      await last().fail('busy')
      while (attempts.length === tried) await clock.moveToNext()
    }
    return { times, locks }
  }

  t.test('a row that fails alone gets twice the time, and waits twice as long for a lock', async (t) => {
    const { times, locks } = await fail(7)
    t.same(times, [50, 25, 50, 100, 200, 400, 800])
    t.same(locks, [25, 2, 4, 8, 16, 32, 64], 'as long as another write has it, then its slice')
  })

  t.test('it depends on attempts: four times the slowest of the last, then twice the usual', async (t) => {
    const { times } = await fail(4, { usualMs: 50 })
    t.same(times, [100, 100, 200, 400])
  })

  t.test('none is longer than a third of the deadline', async (t) => {
    const { times } = await fail(2, { usualMs: 1_000 })
    t.same(times.map(Math.round), [1_667, 1_667])
  })

  t.test('shorter ones go first, and one at most that is longer than the first has a lane', async (t) => {
    const { submit, submitTogether, last, attempts, clock, log } = setUp({ lanes: 3 })
    submit('1', '2')
    await attempts[0]?.fail('busy')
    await clock.move(10)
    await last().fail('busy')
    await attempts[1]?.fail('busy')
    t.same(log(), ['1', '2', '1'])
    await clock.move(20)
    t.same(log(), ['1', '2', '1', '2'])
    submit('3')
    await attempts[4]?.fail('busy')
    await clock.move(10)
    t.same(log().at(-1), '3', 'it rests, and waits for the lane')
    await attempts[3]?.fail('busy')
    t.same(log(), ['1', '2', '1', '2', '3', '3'], 'before the third of 1')
    await clock.move(10)
    submitTogether('4', '5', '6')
    await last().fail('refused')
    await attempts[5]?.fail('busy')
    t.same(log().slice(6), ['4 5 6', '4', '5'], 'before 1, whose like had 10 ms')
  })

  t.test('a row that is slow for its slice is stored in a longer one', async (t) => {
    const { submit, last, outcomes, clock, commits } = setUp()
    submit('1')
    for (let count = 0; count < 3; count++) {
      while (commits.length === count) await clock.moveToNext()
      await commits.at(-1)?.succeed()
      await clock.moveToNext()
      t.ok(last().signal.aborted)
      await last().fail('busy')
      while (last().signal.aborted) await clock.moveToNext()
    }
    await clock.move(160)
    await last().succeed()
    t.same(outcomes, { '1': 'stored 1' })
  })
})

t.test('an attempt is cut off only once something is committed that began later', async (t) => {
  t.test('while nothing is, one commit runs', async (t) => {
    const { submit, attempts, clock, commits } = setUp({ lanes: 3 })
    submit('1', '2', '3')
    await clock.move(9_000)
    t.equal(commits.length, 1)
    for (const { signal } of attempts) t.notOk(signal.aborted)
    await commits[0]?.succeed()
    t.equal(commits.length, 1, 'which began when all were late')
    await clock.move(100 / 4)
    for (const { signal } of attempts) t.ok(signal.aborted)
  })

  t.test('a commit that fails cuts nothing off', async (t) => {
    const { submit, last, clock, commits } = setUp()
    submit('1')
    await clock.move(25)
    await commits[0]?.fail()
    await clock.move(9_000)
    t.notOk(last().signal.aborted)
    t.equal(commits.length, 1)
  })

  t.test('what became late while a commit ran has one of its own', async (t) => {
    const { submit, attempts, clock, commits } = setUp({ lanes: 2 })
    submit('1')
    await clock.move(10)
    submit('2')
    await clock.move(60)
    t.equal(commits.length, 1, 'one at a time')
    await commits[0]?.succeed()
    t.equal(commits.length, 2)
    await clock.move(10)
    t.notOk(attempts[1]?.signal.aborted)
    await commits[1]?.succeed()
    await clock.move(30)
    t.ok(attempts[1]?.signal.aborted)
  })

  t.test('new rows get twice the time after some were cut off', async (t) => {
    const { submit, last, clock, commits } = setUp({ lanes: 2 })
    submit('1')
    await clock.move(50)
    await commits[0]?.succeed()
    await clock.move(50)
    await last().fail('gone')
    submit('2')
    await clock.move(99)
    t.equal(commits.length, 1)
    await clock.move(1)
    t.equal(commits.length, 2)
  })

  t.test('not if it ends in the meantime', async (t) => {
    for (const endsFirst of [true, false]) {
      const { submit, last, clock, commits } = setUp()
      submit('1')
      await clock.move(2_000)
      if (endsFirst) await last().succeed()
      await commits[0]?.succeed()
      await clock.move(5)
      t.notOk(last().signal.aborted)
      await last().succeed()
      t.equal(clock.pending, 1, 'the deadline alone')
    }
  })
})

t.test('after fifty failures in a row, attempts come at a constant rate', async (t) => {
  const { submit, attempts, clock } = setUp({ lanes: 3 })
  let failed = 0
  for (let ms = 0; ms < 1_000; ms++) {
    submit(`${ms}`)
    while (failed < attempts.length) await attempts[failed++]?.fail('busy')
    await clock.move(1)
  }
  const count = attempts.filter(({ at }) => at < 1_000).length
  t.ok(
    attempts.some(({ labels }) => labels.includes('950')),
    'new rows have their turn'
  )
  t.ok(count > 150 && count <= 250, `${count} in a second`)
  while (failed === attempts.length) await clock.moveToNext()
  const at = clock.now()
  for (let count = 0; count < 10; count++) await attempts[failed++]?.succeed()
  t.equal(attempts[failed]?.at, at, 'at any rate after a success')
})

t.test('a row at fault that others have failed with gets its error late', async (t) => {
  /** Fails `1` with `2` after 10 ms, then alone after 10 ms more. */
  async function fail(trouble: FailureKind, { batchRows = 100, idleMs = 0 } = {}) {
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
    if (last().labels === 'find 1') await last().succeed(nothing)
    return world
  }

  t.test('after nine times as long as it took to find, which holds up nobody but its id', async (t) => {
    const { clock, last, log, outcomes, submit, group } = await fail('refused')
    submit('3', '1b')
    await last().succeed()
    await last().succeed()
    t.same(log(), ['1 2', '1', 'find 1', '2', '3'])
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
    await last().succeed(nothing)
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
    t.match((await fail('refused', { batchRows: 1 })).outcomes, { '1': 'refused' })
    const { submitTogether, clock, last, outcomes } = setUp()
    submitTogether('1', '2')
    await clock.move(10)
    await last().fail('broken')
    await clock.move(10)
    await last().fail('gone')
    t.same(outcomes, { '1': 'gone' })
  })
})

t.test('a row that fails alone', async (t) => {
  t.test('rests outside the lanes in growing pauses, until its deadline', async (t) => {
    const { submit, last, attempts, outcomes, clock, group } = setUp()
    submit('1')
    for (let count = 0; count < 8; count++) {
      await last().fail('busy')
      t.equal(group.load.busyLanes, 0)
      await clock.moveToNext()
    }
    const times = attempts.map(({ at }, index) => at - (attempts[index - 1]?.at ?? 0))
    t.same(times, [0, 10, 20, 40, 80, 160, 320, 500, 500])
    while (!outcomes['1']) {
      await last().fail('busy')
      await clock.moveToNext()
    }
    t.equal(outcomes['1'], 'expired')
    t.equal(clock.now(), 10_000)
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

  t.test('one that others follow by their id alone leaves them their batches', async (t) => {
    const { submit, last, log } = setUp()
    submit('1a', '1b', '2', '3')
    await last().succeed()
    t.same(log(), ['1a', '1b 2 3'])
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
    t.same(log(), ['8', '9', '1a 2', 'find 2', '1b'])
    t.same(outcomes, { '8': 'stored 8', '9': 'unknown', '1a': 'unknown' })
  })
})
