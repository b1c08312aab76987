/** When an idle lane takes rows: at the end of the turn in which they come, or at once when they fill a batch. */
import t from 'tap'
import { roomy } from '../../harness/stores/scripted-store.ts'
import { createVirtualClock } from '../../harness/time/virtual-clock.ts'
import { waitForTurn } from '../../src/group-commit/batch-policy.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { AttemptRow, Item } from '../../src/group-commit/types.ts'

/** The policy with batches of three rows; `starts` has how many rows had come at each start. */
function setUp() {
  const clock = createVirtualClock()
  const starts: number[] = []
  let rows = 0
  const call = waitForTurn(3, clock, () => starts.push(rows))
  return {
    clock,
    starts,
    add(count: number) {
      for (; count > 0; count--) {
        rows++
        call()
      }
    }
  }
}

t.test('what fills a batch does not wait for the end of the turn; the rest does', async (t) => {
  const { clock, starts, add } = setUp()
  add(7)
  t.strictSame(starts, [3, 6])
  clock.endTurn()
  t.strictSame(starts, [3, 6, 7])
})

t.test('each turn begins a batch of its own', async (t) => {
  const { clock, starts, add } = setUp()
  for (const _ of ['first', 'second']) {
    add(2)
    clock.endTurn()
  }
  t.strictSame(starts, [2, 4])
})

t.test('group commit keeps to it', async (t) => {
  const clock = createVirtualClock()
  const batches: bigint[][] = []
  const insert = async (rows: readonly AttemptRow<Item>[]) => {
    batches.push(rows.map(({ item }) => item.id))
    return { results: rows.map(() => 'stored') }
  }
  const none = async () => {}
  const store = { insert, find: insert, commitNothing: none, probe: none }
  const group = new GroupCommit<Item, string>(store, { ...roomy, lanes: 3, batchRows: 3 }, { clock })
  for (let id = 1n; id <= 5n; id++) group.submit({ id, bytes: 1 }, none, none)
  t.strictSame(batches, [[1n, 2n, 3n]])
  clock.endTurn()
  t.strictSame(batches.slice(1), [[4n, 5n]])
})
