/** The store of plants that group commit writes to: runs the statements, and says what became of each plant. */
import { classify, isFunctionMissing, mayBeOneRows, OutcomeUnknown } from '../database/errors.ts'
import type { Database } from '../database/pool.ts'
import { checkReadiness } from '../database/readiness.ts'
import { Failure } from '../failures/failure.ts'
import { missing, type Store } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing/tracing.ts'
import { isSame } from './columns.ts'
import {
  createPlants,
  findPlants,
  type PlantWrite,
  repeatPlants,
  type StoredRow,
  selectRequired
} from './statements.ts'

/** A plant on its way into the table. */
export interface PlantItem extends TracedItem, PlantWrite {
  /** The client may repeat it too: the write id comes from its Idempotency-Key. */
  readonly isKeyed: boolean
  /** Called with the number of plants in each transaction that it is tried in. */
  readonly onAttempt?: ((batchRows: number) => void) | undefined
}

/**
 * What became of a plant that is stored: created for the client who asked now, or found where an earlier request with
 * its Idempotency-Key had stored it.
 */
export type Stored = 'created' | 'replayed'

/** Makes the store of plants over the database. */
export function createPlantStore(database: Database): Store<PlantItem, Stored> {
  /** What is visible is replicated: so it is where PostgreSQL's function to wait for it is missing (docs/scaling.md). */
  let isVisibleEnough = false

  return {
    classify,
    mayBeOneRows,

    async write(rows, signal) {
      const items = rows.map(({ item }) => item)
      for (const { onAttempt } of items) onAttempt?.(items.length)
      const isRepeat = rows.some(({ item, repeated }) => repeated || item.isKeyed)
      const written = await database.query<StoredRow>(
        isRepeat ? repeatPlants(items) : createPlants(items),
        signal
      )
      if (!isRepeat && written.rows.length === items.length) return items.map(() => 'created')
      const certain = byId(written.rows)
      const others = items.filter(({ id }) => !certain.has(String(id)))
      const found = others.length === 0 ? [] : await findAfterWrite(others, signal)
      const visible = byId(found)
      return rows.map(({ item, repeated }) => {
        const id = String(item.id)
        const row = certain.get(id) ?? visible.get(id)
        if (row === undefined) return missing
        if (!isRepeat && certain.has(id)) return 'created'
        if (row.write_id !== item.writeId) return new Failure('DuplicatePlant')
        // Our row, but from an attempt whose commit nobody has waited for: it is to be written again.
        if (isRepeat && !certain.has(id)) return missing
        // A row of this attempt is the client's whatever a trigger has made of it.
        if (!item.isKeyed || row.is_new) return 'created'
        if (!isSame(item.plant, row)) return new Failure('ReusedKey')
        // What our own earlier attempt may have written is new to its client.
        return repeated ? 'created' : 'replayed'
      })
    },

    probe: () => checkReadiness(database, selectRequired)
  }

  async function findAfterWrite(items: PlantItem[], signal: AbortSignal): Promise<StoredRow[]> {
    try {
      return (await database.query<StoredRow>(findPlants(items, isVisibleEnough), signal)).rows
    } catch (cause) {
      if (isVisibleEnough || !isFunctionMissing(cause))
        throw new OutcomeUnknown('the rows are written, and cannot be looked at', cause)
      isVisibleEnough = true
      return findAfterWrite(items, signal)
    }
  }
}

const byId = (rows: readonly StoredRow[]) => new Map(rows.map((row) => [row.id, row]))
