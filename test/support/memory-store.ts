/** A store of plants in memory, for applications whose test is not about a database. */
import type { RowResults } from '../../src/group-commit/types.ts'
import type { PlantItem, PlantStore } from '../../src/plants/repository.ts'
import { outcomeOf, type Stored } from '../../src/plants/write-id.ts'

type Row = PlantItem['row']

/** A store, and its rows by their ids. */
export type MemoryStore = PlantStore & { rows: Map<bigint, Row> }

/** Makes an empty store. */
export function createMemoryStore(): MemoryStore {
  const rows = new Map<bigint, Row>()
  const insert: PlantStore['insert'] = async (tried): Promise<RowResults<Stored>> =>
    tried.map(({ item: { id, row } }) => {
      if (rows.has(id)) return undefined
      rows.set(id, row)
      return 'created'
    })
  return {
    rows,
    insert,
    insertEach: insert,
    find: async (tried) =>
      tried.map(({ item: { id, row }, mayBeStored }) =>
        outcomeOf(row.write_id, rows.get(id)?.write_id, mayBeStored)
      ),
    probe: async () => undefined
  }
}
