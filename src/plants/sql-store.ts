/** The store in PostgreSQL: runs the statements for group commit, and says what became of each plant, by its write id. */
import { diagnose } from '../database/errors.ts'
import type { Pool } from '../database/pool.ts'
import type { AttemptEnd, AttemptRow, Results, Store } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing.ts'
import { probeDatabase } from './probe.ts'
import {
  commitNothing,
  comparePlants,
  createPlants,
  findPlants,
  type PlantWrite,
  selectRequired
} from './statements.ts'
import { isFormer, outcomeOf, type Stored, type WriteContext } from './write-id.ts'

/** A create as group commit takes it. */
export interface PlantItem extends TracedItem, PlantWrite, WriteContext {
  readonly caller: string
}

/** A row with a plant's id. The id is a number where the operator has made its column an integer. */
type FoundRow = { id: string | number; write_id: string }

type Row = AttemptRow<PlantItem>

/** Makes the store over the database. */
export function createSqlStore(pool: Pool): Store<PlantItem, Stored> {
  /** Returns the ids of those rows of version 1.0.0 whose content is that of the create. Others' content is in their write id. */
  async function findSameContent(rows: readonly Row[], found: Map<string, string>, signal: AbortSignal) {
    const former = rows.filter(({ item }) => isFormer(item, found.get(String(item.id))))
    if (former.length === 0) return new Set<string>()
    const statement = comparePlants(former.map(({ item }) => item.plant))
    const same = await pool.query<Pick<FoundRow, 'id'>>(statement, signal)
    return new Set(same.rows.map(({ id }) => String(id)))
  }

  return {
    insert: (rows, lockMs, signal) =>
      toAttemptEnd(async () => {
        const statement = createPlants(
          rows.map(({ item }) => item),
          lockMs
        )
        const written = await pool.query<{ write_id: string }>(statement, signal)
        if (written.rows.length === rows.length) return rows.map(() => 'created')
        const made = new Set(written.rows.map(({ write_id }) => write_id))
        return rows.map(({ item }) => (made.has(item.writeId) ? 'created' : undefined))
      }),

    find: (rows, signal) =>
      toAttemptEnd(async () => {
        const statement = findPlants(rows.map(({ item }) => item.id))
        const stored = await pool.query<FoundRow>(statement, signal)
        const found = new Map(stored.rows.map(({ id, write_id }) => [String(id), write_id]))
        const same = await findSameContent(rows, found, signal)
        return rows.map(({ item, mayBeStored }) => {
          const id = String(item.id)
          return outcomeOf(item, found.get(id), same.has(id), mayBeStored)
        })
      }),

    commitNothing: () => pool.query(commitNothing),
    probe: () => probeDatabase(pool, selectRequired)
  }
}

/** Turns a rejection into the failure of all rows: a store's methods for rows do not reject. */
const toAttemptEnd = (attempt: () => Promise<Results<Stored>>): Promise<AttemptEnd<Stored>> =>
  attempt().then(
    (results) => ({ results }),
    (error: unknown) => ({ failure: diagnose(error) })
  )
