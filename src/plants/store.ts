/** The store of plants that group commit writes to: runs the statements, and says what became of each plant. */
import { diagnose } from '../database/errors.ts'
import type { Database } from '../database/pool.ts'
import { checkReadiness } from '../database/readiness.ts'
import type { ConnectionOptions } from '../database/url.ts'
import { Failure } from '../failures/failure.ts'
import type { AttemptRow, Store } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing/tracing.ts'
import {
  createPlants,
  type FoundRow,
  findPlants,
  type PlantWrite,
  selectCanWait,
  selectRequired
} from './statements.ts'

/** A plant on its way into the table. */
export interface PlantItem extends TracedItem, PlantWrite {
  /** The client may repeat it too: the write id comes from its Idempotency-Key. */
  readonly isKeyed: boolean
  /** Takes the number of plants in each transaction that it is tried in. */
  readonly context: { batchRows?: number | undefined }
}

/**
 * What became of a plant that is stored: created for the client who asked now, or found where an earlier request with
 * its Idempotency-Key had stored it.
 */
export type Stored = 'created' | 'replayed'

type PlantRow = AttemptRow<PlantItem>

const shortestLockMs = 25
const longestLockMs = 250

/** Makes the store of plants over the database. */
export function createPlantStore(database: Database): Store<PlantItem, Stored> {
  /** What fast writes take: an id that another replica writes is locked for so long. */
  let usualMs: number | undefined
  /** Whether look-ups can wait for the standby, by the database that was asked. */
  const waits = new WeakMap<ConnectionOptions, boolean>()

  async function insert(items: readonly PlantItem[], signal: AbortSignal): Promise<Set<string>> {
    // A locked id holds up its batch for this long; its row is tried again and again.
    const lockMs = Math.min(longestLockMs, Math.max(shortestLockMs, Math.ceil(2 * (usualMs ?? 0))))
    const began = performance.now()
    const { rows } = await database.query<{ id: string }>(createPlants(items, lockMs), signal)
    const ms = performance.now() - began
    usualMs = usualMs === undefined || ms < usualMs ? ms : usualMs + (ms - usualMs) / 16
    return new Set(rows.map(({ id }) => id))
  }

  async function find(items: readonly PlantItem[], signal: AbortSignal): Promise<Map<string, FoundRow>> {
    const { connection } = database
    let canWait = waits.get(connection)
    if (canWait === undefined) {
      const { rows } = await database.query<{ can_wait: boolean }>(selectCanWait, signal)
      canWait = rows[0]?.can_wait !== false
      waits.set(connection, canWait)
    }
    const { rows } = await database.query<FoundRow>(findPlants(items, canWait), signal)
    return new Map(rows.map((row) => [row.id, row]))
  }

  return {
    async write(rows, signal) {
      const items = rows.map(({ item }) => item)
      for (const { context } of items) context.batchRows = items.length
      let results: (Stored | Error | undefined)[] = []
      try {
        const created = await insert(items, signal)
        if (created.size === items.length) return { results: items.map(() => 'created') }
        results = items.map(({ id }) => (created.has(String(id)) ? 'created' : undefined))
      } catch (error) {
        return { results, failure: diagnose(error) }
      }
      const others = items.filter((_, index) => results[index] === undefined)
      try {
        const found = await find(others, signal)
        return {
          results: rows.map((row, index) => results[index] ?? outcomeOf(row, found.get(String(row.item.id))))
        }
      } catch (error) {
        // Whatever has become of the look-up, these rows were not inserted now.
        return { results, failure: { ...diagnose(error), written: 'no' } }
      }
    },

    probe: () => checkReadiness(database, selectRequired)
  }
}

/** Says what became of a plant that was not inserted, by the row that is in its place. */
function outcomeOf({ item, mayBeStored }: PlantRow, found: FoundRow | undefined): Stored | Error | undefined {
  if (found === undefined) return undefined
  if (!found.is_own) return new Failure('DuplicatePlant')
  if (!item.isKeyed) return 'created'
  if (!found.is_same) return new Failure('ReusedKey')
  // What our own earlier attempt may have stored is new to its client.
  return mayBeStored ? 'created' : 'replayed'
}
