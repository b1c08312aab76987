/** What a failed attempt means for its rows. The store's attempts are ended by hand. */
import t from 'tap'
import { nothing, type Plant, roomy, setUp } from '../../harness/stores/scripted-store.ts'
import { createVirtualClock } from '../../harness/time/virtual-clock.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'

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
  t.test('one that is there already gets what the look-up says, and no refusal', async (t) => {
    for (const found of ['replayed', new Error('duplicate')]) {
      const { submit, last, log, outcomes } = setUp()
      submit('1')
      await last().fail('refused')
      await last().succeed(found)
      t.same(log(), ['1', 'find 1'])
      t.same(outcomes, { '1': found instanceof Error ? found.message : found })
    }
  })

  t.test('while the look-up fails, its client waits; where none is possible, it is refused', async (t) => {
    for (const [trouble, outcome] of [
      ['busy', undefined],
      ['lost', undefined],
      ['gone', 'broken'],
      ['broken', 'broken'],
      ['refused', 'broken']
    ] as const) {
      const { submit, last, log, outcomes, clock } = setUp()
      submit('1')
      await last().fail('broken')
      await last().fail(trouble)
      t.equal(outcomes['1'], outcome, trouble)
      if (outcome) continue
      await clock.move(10)
      t.same(log(), ['1', 'find 1', 'find 1'])
      t.same(last().mayBeStored, [false], 'a look-up stores nothing')
      await clock.moveTo(10_000)
      t.equal(outcomes['1'], 'unknown', 'while it is tried')
    }
  })

  t.test('a row is not called refused if an earlier attempt may have stored it', async (t) => {
    const { submit, last, log, outcomes, clock } = setUp()
    submit('1')
    await last().fail('lost')
    await clock.move(20)
    await last().succeed(nothing)
    await last().fail('refused')
    await last().succeed(nothing)
    t.same(log(), ['1', 'find 1', '1', 'find 1'])
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
  t.test('a row that may be stored is looked up again, in pauses that hold up nobody else', async (t) => {
    const { submit, last, log, outcomes, clock } = setUp()
    submit('1')
    await last().fail('lost')
    await clock.move(10)
    await last().fail('gone')
    t.same(outcomes, {}, 'it is neither given up nor called an error')
    submit('2')
    t.same(log(), ['1', 'find 1', '2'])
    await last().fail('gone')
    t.same(outcomes, { '2': 'gone' })
    await clock.move(20)
    await last().succeed(nothing)
    await last().fail('gone')
    await clock.move(40)
    await last().succeed('created')
    t.same(outcomes, { '1': 'created', '2': 'gone' })
    t.same(log(), ['1', 'find 1', '2', 'find 1', '1', 'find 1'])
  })

  t.test('for the look-up, too: a row that is not stored gets an error', async (t) => {
    const { submit, last, outcomes, causes } = setUp()
    submit('1', '2')
    await last().succeed(nothing)
    await last().fail('gone')
    t.same(outcomes, { '1': 'missing' })
    t.match(causes['1'], { message: 'gone' })
  })
})

t.test('what an insert leaves out is looked up apart, with that of other batches', async (t) => {
  const { submit, submitTogether, attempts, last, log, outcomes } = setUp({ lanes: 3 })
  submitTogether('1', '2', '3')
  submitTogether('4', '5')
  submitTogether('6', '7')
  await attempts[0]?.succeed('created', nothing, nothing)
  t.same(outcomes, { '1': 'created' }, 'its neighbours are told at once')
  t.equal(last().labels, 'find 2 3')
  await attempts[1]?.succeed(nothing, 'created')
  await attempts[2]?.succeed('created', nothing)
  t.equal(log().length, 4, 'one look-up at a time')
  submit('8')
  t.equal(last().labels, '8')
  await attempts[3]?.succeed('replayed', new Error('conflict'))
  t.equal(last().labels, 'find 4 7')
  await last().succeed('replayed', 'replayed')
  t.same(outcomes, {
    '1': 'created',
    '2': 'replayed',
    '3': 'conflict',
    '4': 'replayed',
    '5': 'created',
    '6': 'created',
    '7': 'replayed'
  })
})

t.test('an open outcome is looked up at once, then the rows are inserted in parts', async (t) => {
  const { submit, last, log, outcomes } = setUp()
  submit('0', ...'12345678')
  await last().succeed()
  await last().fail('lost')
  t.equal(last().labels, 'find 1 2 3 4 5 6 7 8')
  t.same(last().mayBeStored, Array(8).fill(true))
  await last().succeed(
    nothing,
    'created',
    nothing,
    nothing,
    new Error('duplicate'),
    ...Array(3).fill(nothing)
  )
  for (const labels of ['1 3', '4 6', '7 8']) {
    t.equal(last().labels, labels)
    await last().succeed()
  }
  t.equal(log().length, 6)
  t.match(outcomes, { '1': 'stored 1', '2': 'created', '3': 'stored 3', '4': 'stored 4', '5': 'duplicate' })
})

t.test('a look-up that fails leaves open: it is repeated in parts, then alone in pauses', async (t) => {
  const { submit, last, attempts, outcomes, clock } = setUp()
  submit('0', '1', '2', '3', '4', '5')
  await last().succeed()
  await last().succeed(nothing, nothing, nothing, nothing, nothing)
  for (const rows of [2, 1, 1]) {
    await last().fail('busy')
    t.equal(last().rows.length, rows)
  }
  t.same(outcomes, { '0': 'stored 0' })
  t.equal(clock.pending, 3, 'one rests, besides the deadline and the attempt')
  await last().succeed('a')
  t.equal(last().rows.length, 3, 'a success lets more go together')
  await last().succeed('b', 'c', 'd')
  await clock.move(10)
  await last().succeed('e')
  t.same(new Set(Object.values(outcomes)), new Set(['stored 0', 'a', 'b', 'c', 'd', 'e']))
  t.ok(attempts.slice(2).every(({ lockMs }) => lockMs === undefined))
})

t.test('a missing row that an attempt may have stored fails as one that may be', async (t) => {
  const { submit, last, outcomes, clock } = setUp()
  submit('1')
  await last().fail('lost')
  while (!outcomes['1']) {
    if (clock.now() === 0 || last().labels === 'find 1') await clock.moveToNext()
    await last().succeed(nothing)
  }
  t.equal(outcomes['1'], 'unknown')
  t.ok(clock.now() < 1_000)
})

t.test('a missing row is tried three times more, then fails', async (t) => {
  const { submit, last, log, outcomes, clock } = setUp()
  submit('0', '1', '2')
  await last().succeed()
  await last().succeed(nothing)
  t.match(outcomes, { '2': 'stored 2' })
  for (const pause of [10, 20, 40]) {
    await last().succeed(nothing)
    t.notOk('1' in outcomes)
    await clock.move(pause)
    t.same(last().labels, '1')
    await last().succeed(nothing)
  }
  await last().succeed(nothing)
  t.equal(outcomes['1'], 'missing')
  t.same(log(), ['0', '1 2', 'find 1', '1', 'find 1', '1', 'find 1', '1', 'find 1'])
})

t.test('a look-up may have more rows than a call may have arguments', async (t) => {
  const rows = 200_000
  let found = 0
  const clock = createVirtualClock()
  const group = new GroupCommit<Plant, string>(
    {
      insert: async (rows) => ({ results: rows.map(() => undefined) }),
      find: async (rows) => ({ results: rows.map(() => 'found') }),
      commitNothing: async () => {},
      probe: async () => {}
    },
    { ...roomy, batchRows: rows, batchBytes: rows },
    { clock }
  )
  for (let id = 0; id < rows; id++) {
    const item = { id: BigInt(id), bytes: 1, label: '' }
    group.submit(
      item,
      () => found++,
      () => {}
    )
  }
  await clock.settle()
  t.equal(found, rows)
})
