/** Promise 8: attempts lock the ids of their rows in one order, so that two of them never wait for each other. */
import t from 'tap'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import type { RowResults, Store } from '../../src/group-commit/types.ts'

type Item = { id: bigint; bytes: number }

t.test('each attempt has its rows in the order of their ids', async (t) => {
  const ids = [3n, -2n, 2n ** 63n - 1n, -(2n ** 63n), 10n, 9n, 0n]
  const sorted = [-(2n ** 63n), -2n, 0n, 3n, 9n, 10n, 2n ** 63n - 1n]
  const attempts: [way: string, ids: bigint[]][] = []
  const record = (way: string, rows: readonly { readonly item: Item }[]) =>
    attempts.push([way, rows.map(({ item }) => item.id)])
  const store: Store<Item, string> = {
    async insert(rows) {
      record('insert', rows)
      return { kind: 'refused', error: new Error('one of them is bad') }
    },
    async insertEach(rows): Promise<RowResults<string>> {
      record('insertEach', rows)
      return rows.map(() => undefined)
    },
    async find(rows): Promise<RowResults<string>> {
      record('find', rows)
      return rows.map(() => 'created')
    },
    probe: async () => undefined
  }
  const limits = { lanes: 1, batchRows: 256, batchBytes: 2 ** 21, deadlineMs: 60_000 }
  const group = new GroupCommit(store, limits, { onAttempt() {}, onOutage() {} })
  await Promise.all(ids.map((id) => group.submit({ id, bytes: 1 })))
  const ways = ['insert', 'insertEach', 'find']
  t.strictSame(
    attempts,
    ways.map((way) => [way, sorted])
  )
})
