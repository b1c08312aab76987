/** The SQL store that group commit writes to: runs the statements, and says what became of each plant, by its write id. */
import { hash, randomUUID } from 'node:crypto'
import { diagnose } from '../database/errors.ts'
import type { Database } from '../database/pool.ts'
import { Failure } from '../failures/failure.ts'
import type { AttemptRow, Store } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing/open-telemetry.ts'
import { checkReadiness } from './probe.ts'
import { createPlants, findPlants, type PlantWrite, selectRequired } from './statements.ts'

/** Who creates a plant, and by which Idempotency-Key. */
export interface WriteContext {
  readonly caller: string
  readonly idempotencyKey?: string | undefined
}

export interface PlantItem extends TracedItem, PlantWrite {
  readonly context: WriteContext
}

/** What became of a plant: stored for this request, or by an earlier one with its Idempotency-Key. */
export type Stored = 'created' | 'replayed'

/** The id is a number where the operator has made the column narrower. */
type Found = { id: string | number; write_id: string }

/** Makes the store over the database. */
export function createSqlStore(database: Database): Store<PlantItem, Stored> {
  /** How long fast writes take, and so how long another replica's write locks an id. */
  let usualMs: number | undefined

  /** Inserts the items whose id is free, and returns their ids. */
  async function insert(items: readonly PlantItem[], signal: AbortSignal): Promise<Set<string>> {
    // A locked id delays its whole batch for this long. Its row is tried again.
    const lockMs = Math.min(250, Math.max(25, Math.ceil(2 * (usualMs ?? 0))))
    const began = performance.now()
    const { rows } = await database.query<Pick<Found, 'id'>>(createPlants(items, lockMs), signal)
    const ms = performance.now() - began
    usualMs = usualMs === undefined || ms < usualMs ? ms : usualMs + (ms - usualMs) / 16
    return new Set(rows.map(({ id }) => String(id)))
  }

  return {
    async write(rows, signal) {
      const items = rows.map(({ item }) => item)
      let results: ('created' | undefined)[] = []
      try {
        const created = await insert(items, signal)
        results = items.map(({ id }) => (created.has(String(id)) ? 'created' : undefined))
      } catch (error) {
        return { results, failure: diagnose(error) }
      }
      const ids = items.filter((_, index) => !results[index]).map(({ id }) => id)
      if (ids.length === 0) return { results }
      try {
        const others = await database.query<Found>(findPlants(ids), signal)
        const found = new Map(others.rows.map(({ id, write_id }) => [String(id), write_id]))
        return {
          results: rows.map((row, at) => results[at] ?? outcomeOf(row, found.get(String(row.item.id))))
        }
      } catch (error) {
        // However the look-up has failed: this attempt has not inserted these rows.
        return { results, failure: { ...diagnose(error), written: 'no' } }
      }
    },

    probe: () => checkReadiness(database, selectRequired)
  }
}

/** Returns what became of a plant that was not inserted, given the write id of the row with its id. */
function outcomeOf({ item, mayBeStored }: AttemptRow<PlantItem>, found: string | undefined) {
  if (found === undefined) return undefined
  const { caller, idempotencyKey: key } = item.context
  // A plant that our own earlier attempt stored is new to its client.
  if (found === item.writeId) return key === undefined || mayBeStored ? 'created' : 'replayed'
  if (key === undefined || !isOfSameKey(found, item.writeId)) return new Failure('DuplicatePlant')
  return found === deriveFormerWriteId(caller, key) ? 'replayed' : new Failure('ReusedKey')
}

/** Returns a unique write id, for a create that only the service repeats. */
export const randomWriteId = (): string => randomUUID()

/**
 * Returns the write id of a create with an Idempotency-Key: the same for the same caller, key and content. A UUID of
 * version 8 (RFC 9562, section 5.8): 48 bits of a hash of the caller and the key, then 72 bits of a hash of all three.
 */
export function deriveWriteId(caller: string, key: string, content: string): string {
  const keyed = hashKey(caller, key)
  const whole = hash('sha256', keyed + content)
  return toUuid(`${keyed.slice(0, 12)}8${whole.slice(0, 3)}a${whole.slice(3, 18)}`)
}

/** Returns whether two write ids are of one caller and key. */
export const isOfSameKey = (one: string, other: string): boolean => keyOf(one) === keyOf(other)

/** Returns the write id that version 1.0.0 gave to creates with this key, whatever their content. */
export function deriveFormerWriteId(caller: string, key: string): string {
  const digits = hashKey(caller, key)
  const variant = (0x8 | (Number.parseInt(digits.charAt(16), 16) & 0x3)).toString(16)
  return toUuid(`${digits.slice(0, 12)}8${digits.slice(13, 16)}${variant}${digits.slice(17, 32)}`)
}

/** The lengths make the text that is hashed unambiguous. */
const hashKey = (caller: string, key: string) =>
  hash('sha256', `${caller.length}:${caller}${key.length}:${key}`)

const toUuid = (digits: string) => digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')

/** The part that the caller and the key determine, and the version, which differs from that of a random id. */
const keyOf = (writeId: string) => writeId.slice(0, 'xxxxxxxx-xxxx-8'.length)
