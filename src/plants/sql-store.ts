/** The SQL store that group commit writes to: runs the statements, and says what became of each plant, by its write id. */
import { diagnose } from '../database/errors.ts'
import type { Database } from '../database/pool.ts'
import { Failure } from '../failures/failure.ts'
import type { AttemptRow, Store, Written } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing/open-telemetry.ts'
import { checkReadiness } from './probe.ts'
import {
  commit,
  comparePlants,
  createPlants,
  findPlants,
  type PlantWrite,
  selectRequired
} from './statements.ts'
import { deriveFormerWriteId, isOfSameKey } from './write-id.ts'

/** Who creates a plant, and by which Idempotency-Key. */
export interface WriteContext {
  readonly caller: string
  readonly idempotencyKey?: string | undefined
}

export interface PlantItem extends TracedItem, PlantWrite, WriteContext {
  readonly caller: string
}

/** What became of a plant: stored for this request, or by an earlier one with its Idempotency-Key. */
export type Stored = 'created' | 'replayed'

/** The id is a number where the operator has made the column narrower. */
type Found = { id: string | number; write_id: string }

type Row = AttemptRow<PlantItem>

/** Makes the store over the database. */
export function createSqlStore(database: Database): Store<PlantItem, Stored> {
  /** Returns the ids of those rows of version 1.0.0 that hold what is asked for. */
  async function compare(rows: readonly Row[], found: Map<string, string>, signal: AbortSignal) {
    const former = rows.filter(({ item }) => isFormer(item, found.get(String(item.id))))
    if (former.length === 0) return new Set<string>()
    const statement = comparePlants(former.map(({ item }) => item.plant))
    const same = await database.query<Pick<Found, 'id'>>(statement, signal)
    return new Set(same.rows.map(({ id }) => String(id)))
  }

  return {
    insert: (rows, lockMs, signal) =>
      settled(async () => {
        const statement = createPlants(
          rows.map(({ item }) => item),
          lockMs
        )
        const written = await database.query<{ write_id: string }>(statement, signal)
        if (written.rows.length === rows.length) return rows.map(() => 'created')
        const made = new Set(written.rows.map(({ write_id }) => write_id))
        return rows.map(({ item }) => (made.has(item.writeId) ? 'created' : undefined))
      }),

    find: (rows, signal) =>
      settled(async () => {
        const statement = findPlants(rows.map(({ item }) => item.id))
        const others = await database.query<Found>(statement, signal)
        const found = new Map(others.rows.map(({ id, write_id }) => [String(id), write_id]))
        const same = await compare(rows, found, signal)
        return rows.map((row) => {
          const id = String(row.item.id)
          return outcomeOf(row, found.get(id), same.has(id))
        })
      }),

    commit: () => database.query(commit),
    probe: () => checkReadiness(database, selectRequired)
  }
}

/** Turns a rejection into the failure of all rows. */
const settled = (attempt: () => Promise<Written<Stored>['results']>): Promise<Written<Stored>> =>
  attempt().then(
    (results) => ({ results }),
    (error: unknown) => ({ results: [], failure: diagnose(error) })
  )

/** Returns whether a row is one that version 1.0.0 has written with the item's key. */
const isFormer = ({ caller, idempotencyKey: key }: PlantItem, found: string | undefined) =>
  key !== undefined && found !== undefined && found === deriveFormerWriteId(caller, key)

/** Returns what became of a plant that was not inserted, given the write id of the row with its id. */
function outcomeOf({ item, mayBeStored }: Row, found: string | undefined, isSame: boolean) {
  if (found === undefined) return undefined
  const { idempotencyKey: key } = item
  // A plant that our own earlier attempt stored is new to its client.
  if (found === item.writeId) return key === undefined || mayBeStored ? 'created' : 'replayed'
  if (isFormer(item, found) && isSame) return 'replayed'
  return new Failure(key !== undefined && isOfSameKey(found, item.writeId) ? 'ReusedKey' : 'DuplicatePlant')
}
