/** Promise 8: the error of a row that has failed with others is held back, so that its client cannot fail others all the time. */
import t from 'tap'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { RowResults, Store } from '../../src/group-commit/types.ts'
import { installVirtualTime } from '../support/virtual-time.ts'

type Item = { id: bigint; bytes: number }

const attemptMs = 10
const bad = 1n
const refusal = { kind: 'refused', error: new Error('a rule') } as const
const wait = () => new Promise((resolve) => setTimeout(resolve, attemptMs))

/** A table with a rule that one id breaks. Each attempt takes 10 ms. */
const store: Store<Item, string> = {
  async insert(rows): Promise<RowResults<string> | typeof refusal> {
    await wait()
    return rows.some(({ item }) => item.id === bad) ? refusal : rows.map(() => 'created')
  },
  async insertEach(rows): Promise<RowResults<string>> {
    await wait()
    return rows.map(({ item }) => (item.id === bad ? refusal : 'created'))
  },
  async find(rows) {
    await wait()
    return rows.map(() => undefined)
  },
  probe: async () => undefined
}

/** Creates that come together, the deadline, and when the bad one has its error, in ms. */
const cases: [title: string, ids: bigint[], deadlineMs: number, toldAt: number][] = [
  ['alone, it has failed no other: at once', [bad], 10_000, 2 * attemptMs],
  ['with others: after ten times its age', [bad, 2n, 3n], 10_000, 30 * attemptMs],
  ['with others: after half of what is left, if that is less', [bad, 2n, 3n], 100, 65]
]

for (const [title, ids, deadlineMs, toldAt] of cases)
  t.test(title, async (t) => {
    const { moveTo, restore } = installVirtualTime(() => 0.5)
    t.teardown(restore)
    const limits = { lanes: 3, batchRows: 256, batchBytes: 2 ** 21, deadlineMs }
    const group = new GroupCommit(store, limits, { onAttempt() {}, onOutage() {} })
    const told: [id: bigint, outcome: unknown, at: number][] = []
    for (const id of ids) {
      const tell = (outcome: unknown) => void told.push([id, outcome, performance.now()])
      void group.submit({ id, bytes: 1 }).then(tell, tell)
    }
    await moveTo(deadlineMs)
    restore()
    const others = ids.filter((id) => id !== bad)
    t.strictSame(told, [
      ...others.map((id) => [id, 'created', 2 * attemptMs]),
      [bad, refusal.error, toldAt]
    ])
  })
