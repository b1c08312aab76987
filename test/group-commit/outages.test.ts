/** A database that is down, and a service that closes. The store's attempts are ended by hand. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { setUp } from '../../harness/stores/scripted-store.ts'
import { createOutage } from '../../src/group-commit/outage.ts'
import { systemClock } from '../../src/shared/clock.ts'

t.test('outages', async (t) => {
  t.test('a database away for a whole deadline is not waited for until a probe finds it', async (t) => {
    const { submit, attempts, last, outcomes, outages, clock, probes, group, log } = setUp({ lanes: 2 })
    submit('0')
    await last().succeed()
    t.same(outages, [])
    await clock.move(1)
    submit('1')
    await clock.move(5000)
    submit('2')
    await last().fail('away')
    await clock.moveTo(10_000)
    t.notOk(group.load.databaseDown)
    await clock.moveTo(10_001)
    t.equal(outcomes['1'], 'unknown')
    t.same(log(), ['0', '1', '2', '2'])
    await attempts[1]?.fail('lost')
    t.same(
      probes.map(({ at }) => at),
      [10_001]
    )
    t.notOk(group.load.databaseDown, 'one row may have lost its session')
    await clock.move(200)
    await probes[0]?.fail()
    t.ok(group.load.databaseDown)
    t.same(outages, [true])
    submit('3')
    await clock.settle()
    t.equal(outcomes['3'], 'databaseDown')
    await clock.move(499)
    t.equal(probes.length, 1, 'one probe every 500 ms')
    await clock.move(1)
    t.equal(probes.length, 2)
    await last().fail('away')
    const before = log().length
    await probes[1]?.succeed()
    t.notOk(group.load.databaseDown)
    t.same(outages, [true, false])
    t.same(log().slice(before), ['2'], 'what waits continues at once')
    submit('4')
    t.same(last().labels, '4')
    await last().succeed()
    t.equal(outcomes['4'], 'stored 4')
    await clock.move(1000)
    t.equal(probes.length, 2)
  })

  t.test('an outage is told at once, each minute, and once when it is over', async (t) => {
    const { submit, clock, probes, outages } = setUp()
    await clock.move(1)
    submit('1')
    await clock.move(10_000)
    const began = clock.now()
    const told: number[] = []
    while (clock.now() < began + 121_000) {
      const before = outages.length
      await probes.at(-1)?.fail()
      if (outages.length > before) told.push(clock.now() - began)
      await clock.move(500)
    }
    t.same(told, [0, 60_000, 120_000])
    await probes.at(-1)?.succeed()
    t.same(outages, [true, true, true, false])
  })

  t.test('a row that gets through ends the outage; a late probe does not disturb', async (t) => {
    const { submit, attempts, last, clock, probes, group, outages } = setUp({ lanes: 3 })
    await clock.move(1)
    submit('1')
    await clock.move(5000)
    submit('2')
    await clock.move(5000)
    await probes[0]?.fail()
    t.ok(group.load.databaseDown)
    t.equal(clock.pending, 2)
    await attempts[1]?.fail('gone')
    t.notOk(group.load.databaseDown, 'a sign of life, though an error')
    t.equal(clock.pending, 1, 'no more probes')
    await clock.move(1)
    await attempts[0]?.fail('lost')

    submit('3')
    await clock.move(5000)
    submit('4')
    await clock.move(5000)
    t.equal(probes.length, 2)
    await last().succeed()
    t.notOk(group.load.databaseDown)
    await clock.move(1)
    submit('5')
    await clock.move(10_000)
    t.equal(probes.length, 2, 'the probe that still runs serves the new suspicion')
    await probes[1]?.fail()
    t.ok(group.load.databaseDown)
    await clock.move(500)
    t.equal(probes.length, 3)
    for (const attempt of attempts) await attempt.fail('lost')
    await group.close()
    await probes[2]?.fail()
    t.equal(clock.pending, 0, 'nothing is left behind')
    t.same(outages, [true, false, true], 'the last one ends with the service, and is not reported')
  })

  t.test(
    'a probe that finds the database is a sign of life for the rows that waited meanwhile',
    async (t) => {
      const { submit, last, clock, probes, group, outcomes } = setUp()
      await clock.move(1)
      submit('1')
      await clock.move(5000)
      submit('2')
      await clock.move(5000)
      await probes[0]?.fail()
      t.ok(group.load.databaseDown)
      await clock.move(500)
      await probes[1]?.succeed()
      t.notOk(group.load.databaseDown)
      await last().fail('lost')
      await clock.move(5000)
      t.same(outcomes, { '1': 'unknown', '2': 'unknown' })
      t.notOk(group.load.databaseDown)
    }
  )

  t.test('a row that loses each of its sessions is not an outage', async (t) => {
    const { submit, last, clock, probes, group, outages, outcomes } = setUp()
    await clock.move(1)
    submit('1')
    while (clock.now() < 10_001) {
      await clock.moveTo(Math.min(clock.nextAt ?? 10_001, 10_001))
      if (group.load.busyLanes > 0) await last().fail('lost')
    }
    t.same(outcomes, { '1': 'unknown' })
    t.equal(probes.length, 1)
    await probes[0]?.succeed()
    t.same(outages, [])
    submit('2')
    await last().succeed()
    t.match(outcomes, { '2': 'stored 2' })
    await clock.move(1_000)
    t.equal(probes.length, 1)
  })

  t.test('a probe that fails after a sign of life is not an outage', async (t) => {
    const { submit, last, clock, probes, group, outages } = setUp()
    await clock.move(1)
    submit('1')
    await clock.move(10_000)
    await last().succeed()
    await probes[0]?.fail()
    t.notOk(group.load.databaseDown)
    t.same(outages, [])
    t.equal(clock.pending, 0, 'no more probes')
  })

  t.test('an outage that begins ends no pause', async (t) => {
    const { submit, last, clock, group, log, probes } = setUp({ lanes: 2 })
    submit('1')
    await clock.move(1)
    submit('2')
    await clock.moveTo(9_995)
    await last().fail('lost')
    await clock.moveTo(10_000)
    await probes[0]?.fail()
    t.ok(group.load.databaseDown)
    t.same(log(), ['1', '2'])
  })

  t.test('an attempt that is given up is not a sign of life, nor a long queue an outage', async (t) => {
    const { submit, last, clock, group, outcomes, probes } = setUp()
    submit('1', '2')
    await clock.move(10_000)
    await probes[0]?.fail()
    t.ok(group.load.databaseDown)
    await last().fail('gone')
    t.ok(group.load.databaseDown)

    const busy = setUp({ batchRows: 1 })
    busy.submit('1', '2', '3')
    await busy.clock.move(5000)
    await busy.last().succeed()
    await busy.clock.move(5000)
    t.same(busy.outcomes, { '1': 'stored 1', '2': 'unknown', '3': 'expired' })
    t.notOk(busy.group.load.databaseDown)
    t.same(outcomes, { '1': 'unknown', '2': 'expired' })
  })
})

t.test('closing', async (t) => {
  t.test('close refuses new rows and waits for the outcomes of the others', async (t) => {
    const { submit, last, outcomes, group, clock } = setUp()
    submit('1', '2')
    let closed = false
    void group.close().then(() => (closed = true))
    submit('3')
    await last().succeed()
    t.same(outcomes, { '1': 'stored 1', '3': 'closed' })
    t.notOk(closed)
    await last().succeed()
    t.ok(closed)
    t.equal(clock.pending, 0, 'no timer keeps the process')
    await group.close()
  })

  t.test('close waits for rows that pause outside the lanes and for attempts given up', async (t) => {
    const { submit, last, outcomes, group, clock } = setUp()
    submit('1')
    await last().fail('busy')
    let closed = false
    void group.close().then(() => (closed = true))
    await clock.move(9000)
    t.notOk(closed)
    await clock.move(1000)
    t.same(outcomes, { '1': 'unknown' })
    t.notOk(closed)
    await last().fail('lost')
    t.ok(closed)
    t.equal(clock.pending, 0)
  })
})

t.test('an outage that others notice begins after a deadline, unless something was written', async (t) => {
  const { group, clock, submit, last, probes, outages } = setUp()
  await clock.moveTo(10_999)
  group.noteAway(1_000)
  t.notOk(group.load.databaseDown)
  await clock.moveTo(11_000)
  group.noteAway(1_000)
  await probes[0]?.fail()
  t.ok(group.load.databaseDown)
  await clock.move(500)
  await probes[1]?.succeed()
  t.notOk(group.load.databaseDown, 'its probe ends it')
  submit('1')
  await last().succeed()
  await clock.moveTo(16_000)
  group.noteAway(5_000)
  t.same(outages, [true, false])
})

t.test('an outage comes with what its probe has met', async (t) => {
  const reported: unknown[] = []
  const failed = new Error('no route')
  const clock = { ...systemClock, after: () => () => {} }
  const outage = createOutage(
    () => Promise.reject(failed),
    clock,
    (...change) => reported.push(change)
  )
  outage.expired(0)
  await setImmediate()
  outage.signOfLife()
  t.strictSame(reported, [[true, failed], [false]])
})
