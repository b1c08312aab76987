/** Which rows an attempt takes, and when. The store's attempts are ended by hand. */
import t from 'tap'
import { setUp } from '../../harness/stores/scripted-store.ts'
import type { AttemptReport } from '../../src/group-commit/types.ts'

const ignore = () => {}

t.test('lanes', async (t) => {
  t.test('a lone row is written in its turn, and its outcome starts the next batch', async (t) => {
    const { submit, log, last, outcomes, clock } = setUp()
    submit('1')
    t.same(log(), ['1'])
    t.equal(clock.pending, 2, 'a timer for the deadline, and one for the attempt')
    submit('4', '3', '-2', '2')
    t.same(log(), ['1'], 'the lane is busy')
    await last().succeed()
    t.same(outcomes, { '1': 'stored 1' })
    t.same(log(), ['1', '-2 2 3 4'], 'sorted by id')
    await last().succeed()
    t.equal(Object.keys(outcomes).length, 5)
    t.equal(clock.pending, 1, 'the deadline')
  })

  t.test('a result that comes in the turn of the deadline counts', async (t) => {
    const { submit, clock, last, outcomes } = setUp({ deadlineMs: 1_000 })
    submit('1')
    clock.after(1_000, () => void last().succeed())
    await clock.move(1_000)
    t.same(outcomes, { '1': 'stored 1' })
  })

  t.test('ids beyond 2^53 sort exactly', async (t) => {
    const { group, last, clock } = setUp()
    const add = (id: bigint) => group.submit({ id, bytes: 1, label: String(id) }, ignore, ignore)
    for (const id of [9007199254740993n, 9007199254740992n, -9223372036854775808n]) add(id)
    clock.endTurn()
    t.equal(last().labels, '-9223372036854775808 9007199254740992 9007199254740993')
  })

  t.test('a batch is bounded in bytes; a row that is larger goes alone', async (t) => {
    const { group, clock, last, log } = setUp({ batchBytes: 100 })
    const sizes = [60, 40, 1, 500, 100, 1]
    for (const [index, bytes] of sizes.entries()) {
      group.submit({ id: BigInt(index), bytes, label: String(bytes) }, ignore, ignore)
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
    await attempts[0]?.fail('gone')
    t.same(log(), ['1a', '2', '1b'])
    await attempts[2]?.succeed(new Error('duplicate'))
    t.same(log(), ['1a', '2', '1b', '1c'])
  })

  t.test('rows that wait for their id expire in order; the rest go on when it is free', async (t) => {
    const { submit, log, last, outcomes, clock } = setUp()
    submit('1a', '1b', '1c')
    await clock.move(5000)
    submit('1d')
    await clock.move(5000)
    t.same(outcomes, { '1a': 'unknown', '1b': 'expired', '1c': 'expired' })
    t.same(log(), ['1a'], 'the id is in flight until the attempt ends')
    await last().succeed()
    t.same(log(), ['1a', '1d'])
    submit('1e')
    await last().succeed()
    await last().succeed()
    t.match(outcomes, { '1d': 'stored 1d', '1e': 'stored 1e' })
  })

  t.test('an id in flight stays so, however many others pass', async (t) => {
    const { submit, attempts, last, log, group } = setUp({ lanes: 2 })
    submit('0a')
    for (let id = 1; id <= 3000; id++) {
      submit(String(id))
      await last().succeed()
    }
    submit('0b')
    t.equal(last().labels, '3000')
    t.equal(group.load.rows, 2)
    await attempts[0]?.succeed()
    t.equal(last().labels, '0b')
    t.equal(log().length, 3002)
  })

  t.test('a row that expires in the queue hands its id on; its neighbours stay in order', async (t) => {
    const { submit, log, last, outcomes, clock } = setUp()
    submit('0')
    await clock.move(1)
    submit('1a', '2', '3')
    await clock.move(1)
    submit('1b', '4')
    await clock.move(9999)
    t.same(outcomes, { '0': 'unknown', '1a': 'expired', '2': 'expired', '3': 'expired' })
    await last().succeed()
    t.same(log(), ['0', '1b 4'])
  })
})

t.test('each attempt is reported', async (t) => {
  const reports: AttemptReport[] = []
  const { submit, last, clock } = setUp({}, (report) => reports.push(report))
  submit('1', '2', '3')
  await clock.move(3)
  await last().succeed()
  await clock.move(4)
  await last().fail('lost')
  await last().succeed()
  t.same(reports, [
    { rows: 1, ms: 3, outcome: 'written' },
    { rows: 2, ms: 4, outcome: 'lost' },
    { rows: 2, ms: 0, outcome: 'found' }
  ])
})
