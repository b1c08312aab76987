/** A store in memory, with what the repository asks of any store. */
import type { Store } from '../../src/group-commit/types.ts'
import type { PlantItem } from '../../src/plants/sql-store.ts'
import { outcomeOf, type Stored } from '../../src/plants/write-id.ts'

export function createMemoryStore(): Store<PlantItem, Stored> {
  const plants = new Map<bigint, PlantItem>()
  return {
    async insert(rows) {
      const results = rows.map(({ item }) => {
        if (plants.has(item.id)) return undefined
        plants.set(item.id, item)
        return 'created' as const
      })
      return { results }
    },
    async find(rows) {
      const results = rows.map(({ item, mayBeStored }) =>
        outcomeOf(item, plants.get(item.id)?.writeId, false, mayBeStored)
      )
      return { results }
    },
    async commitNothing() {},
    async probe() {}
  }
}
