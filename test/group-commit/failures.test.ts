/** What a failed attempt means for its rows. The store's attempts are ended by hand. */
import t from 'tap'
import { setUp, undecided } from '../support/scripted-store.ts'

t.test('a database that does not serve', async (t) => {
  t.test('the rows stay together, in order, and nothing is tried in pauses that grow', async (t) => {
    const { submit, attempts, last, clock, log } = setUp({ lanes: 2 })
    submit('2')
    await last().fail('away')
    submit('3', '1')
    t.same(log(), ['2'], 'other lanes wait, too')
    for (let count = 0; count < 8; count++) {
      await clock.moveTo(clock.nextAt ?? 0)
      t.equal(last().labels, '1 2 3', 'one attempt after each pause')
      await last().fail('away')
    }
    const times = attempts.map(({ at }, index) => at - (attempts[index - 1]?.at ?? 0))
    t.same(times, [0, 10, 20, 40, 80, 160, 320, 500, 500])
  })

  t.test('a success ends the pause of all, and makes the next one short', async (t) => {
    const { submit, attempts, last, clock, log } = setUp({ lanes: 2 })
    submit('1', '2')
    for (const pause of [10, 20, 40]) {
      await attempts.at(-1)?.fail('away')
      await clock.move(pause)
    }
    await last().fail('away')
    t.same(log(), ['1', '2', '2', '2', '2'])
    await attempts[0]?.succeed()
    t.same(log().slice(5), ['2'], 'at once')
    await last().fail('away')
    t.equal((clock.nextAt as number) - clock.now(), 10)
  })

  t.test('two lanes that fail at the same time make one pause', async (t) => {
    const { submit, attempts, clock, log } = setUp({ lanes: 2 })
    submit('1', '2')
    await attempts[0]?.fail('away')
    await attempts[1]?.fail('away')
    await clock.move(10)
    t.same(log(), ['1', '2', '1 2'])
    await attempts[2]?.fail('away')
    t.equal(clock.nextAt, 30)
  })

  t.test('the jitter spreads a pause between half and all of it', async (t) => {
    for (const [random, pause] of [
      [0, 10],
      [0.5, 15],
      [0.75, 17.5]
    ] as const) {
      const { submit, last, clock } = setUp({}, undefined, random)
      submit('1')
      await last().fail('away')
      t.equal(clock.nextAt, pause)
    }
  })
})

t.test('only an attempt whose outcome is open marks its rows, and for good', async (t) => {
  const { submit, last, clock, outcomes } = setUp({ deadlineMs: 100 })
  submit('1')
  for (const trouble of ['away', 'lost', 'busy'] as const) {
    t.same(last().mayBeStored, [trouble === 'busy'])
    await last().fail(trouble)
    await clock.moveTo(clock.nextAt ?? 0)
  }
  t.same(last().mayBeStored, [true])
  await last().succeed()
  submit('2')
  while (outcomes['2'] === undefined) {
    await last().fail('away')
    await clock.moveTo(clock.nextAt ?? 0)
  }
  t.same(outcomes, { '1': 'stored 1', '2': 'expired' })
})

t.test('chance: the rows are repeated at once, together and with what has come, three times', async (t) => {
  const { submit, last, log, clock } = setUp()
  submit('1')
  await last().fail('chance')
  submit('2', '3')
  for (const _ of [1, 2]) await last().fail('chance')
  t.same(log(), ['1', '1', '1 2 3', '1 2 3'])
  await last().fail('chance')
  t.same(last().labels, '1')
  await last().succeed()
  t.same(last().labels, '2 3', 'these have chances left')
  t.equal(clock.now(), 0)
})

t.test('refused data', async (t) => {
  t.test('a bad row is found by smaller batches; the others are stored', async (t) => {
    const { submit, last, log, outcomes, group } = setUp()
    submit('0', '1', '2', '3', '4', '5')
    await last().succeed()
    await last().fail('refused')
    await last().succeed()
    await last().fail('refused')
    await last().succeed()
    await last().succeed()
    await last().fail('refused')
    t.same(log(), ['0', '1 2 3 4 5', '1', '2 3', '4 5', '2', '3'])
    t.same(outcomes, {
      '0': 'stored 0',
      '1': 'stored 1',
      '2': 'stored 2',
      '3': 'refused',
      '4': 'stored 4',
      '5': 'stored 5'
    })
    t.equal(group.load.busyLanes, 0)
  })

  t.test('a row is not called refused if an earlier attempt may have stored it', async (t) => {
    const { submit, last, outcomes, clock } = setUp()
    submit('1')
    await last().fail('lost')
    await clock.move(20)
    await last().fail('refused')
    t.same(outcomes, { '1': 'unknown' })
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

t.test('something that every row needs is missing', async (t) => {
  t.test('every row of the batch fails, and others are tried at once', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('gone')
    t.same(outcomes, { '0': 'stored 0', '1': 'gone', '2': 'gone' })
    submit('3')
    t.same(log(), ['0', '1 2', '3'])
  })

  t.test('a row that may be stored is looked up again, in pauses that hold up nobody else', async (t) => {
    const { submit, last, log, outcomes, clock } = setUp()
    submit('1')
    await last().fail('lost')
    await clock.move(10)
    await last().fail('gone')
    t.same(outcomes, {}, 'it is neither given up nor called an error')
    submit('2')
    t.same(log(), ['1', '1', '2'])
    await last().fail('gone')
    t.same(outcomes, { '2': 'gone' })
    await clock.move(10)
    await last().succeed()
    t.same(outcomes, { '1': 'stored 1', '2': 'gone' })
    t.same(log(), ['1', '1', '2', '1'])
  })
})

t.test('a part of an attempt fails', async (t) => {
  t.test('decided rows are settled; the others are told apart by themselves', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('0', '1', '2', '3', '4')
    await last().succeed()
    await last().fail('broken', 'stored 1', undefined, new Error('duplicate'))
    t.same(outcomes, { '0': 'stored 0', '1': 'stored 1', '3': 'duplicate' })
    t.same(last().labels, '2')
    await last().fail('broken')
    await last().succeed()
    t.same(log(), ['0', '1 2 3 4', '2', '4'])
    t.match(outcomes, { '2': 'broken', '4': 'stored 4' })
  })

  t.test('a row that is the only one in question gets the failure', async (t) => {
    const { submit, last, log, outcomes } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail('broken', 'stored 1')
    t.same(outcomes, { '0': 'stored 0', '1': 'stored 1', '2': 'broken' })
    t.same(log(), ['0', '1 2'])
  })
})

t.test("a row's own error is its caller's only", async (t) => {
  const { submit, last, outcomes } = setUp()
  submit('0', '1', '2')
  await last().succeed()
  await last().succeed('replayed', new Error('conflict'))
  t.same(outcomes, { '0': 'stored 0', '1': 'replayed', '2': 'conflict' })
})

t.test('a missing row that an attempt may have stored fails as one that may be', async (t) => {
  const { submit, last, outcomes, clock } = setUp()
  submit('1')
  await last().fail('lost')
  while (!outcomes['1']) {
    await clock.moveTo(clock.nextAt as number)
    await last().succeed(undecided)
  }
  t.equal(outcomes['1'], 'unknown')
  t.ok(clock.now() < 1_000)
})

t.test('a missing row is tried three times more, then fails', async (t) => {
  const { submit, last, log, outcomes, clock } = setUp()
  submit('0', '1', '2')
  await last().succeed()
  await last().succeed(undecided)
  t.match(outcomes, { '2': 'stored 2' })
  for (const pause of [10, 20, 40]) {
    t.notOk('1' in outcomes)
    await clock.move(pause)
    t.same(last().labels, '1')
    await last().succeed(undecided)
  }
  t.equal(outcomes['1'], 'missing')
  t.same(log(), ['0', '1 2', '1', '1', '1'])
})

t.test('a row that expires gets the cause of its last failure', async (t) => {
  for (const trouble of ['away', 'busy', 'refused', 'broken'] as const) {
    const { submit, last, causes, clock } = setUp()
    submit('0', '1', '2')
    await last().succeed()
    await last().fail(trouble)
    await clock.moveTo(10_000)
    t.match(causes['2'], { message: trouble })
  }
})
