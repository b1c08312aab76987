/** Write ids: each row stores the id of the create that wrote it (docs/decisions.md). Without an Idempotency-Key it is random. */
import { hash } from 'node:crypto'
import { Failure } from '../failures.ts'
import { NewPlant } from './schema.ts'

/** How a create succeeded: it stored the plant, or an earlier request with its Idempotency-Key did. */
export type Stored = 'created' | 'replayed'

const fields = Object.keys(NewPlant.properties) as (keyof NewPlant)[]

const toLiteral = (value: unknown) =>
  typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : value

/** Writes a plant as text. Stored rows have ids of it, so it must never change, nor with a new optional field of other plants. */
const toText = (plant: NewPlant) =>
  fields
    .filter((field) => plant[field] !== undefined)
    .map((field) => `${field}:${toLiteral(plant[field])}`)
    .join()

/**
 * Returns the write id of a create with an Idempotency-Key: the same for the same caller, key and content. A UUID of
 * version 8 (RFC 9562, section 5.8): 48 bits of a hash of the caller and the key, then 72 bits of a hash of all three.
 */
export function deriveWriteId(caller: string, key: string, plant: NewPlant): string {
  // With the lengths: without them, a longer caller and a shorter key could give the same text.
  const keyed = hash('sha256', `${caller.length}:${caller}${key.length}:${key}`)
  const whole = hash('sha256', keyed + toText(plant))
  const digits = `${keyed.slice(0, 12)}8${whole.slice(0, 3)}a${whole.slice(3, 18)}`
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Returns the part of a write id that depends on the caller and the key alone; undefined for a random one, whose version is 4. */
export const keyPartOf = (writeId: string): string | undefined => /^.{8}-.{4}-8/.exec(writeId)?.[0]

/** Returns what became of a create that has inserted no row; `found` is the write id of the row with its id, if there is one. */
export function outcomeOf(writeId: string, found: string | undefined, mayBeStored: boolean) {
  if (found === undefined) return undefined
  const keyPart = keyPartOf(writeId)
  // A plant that an earlier attempt at this create stored is new to its client.
  if (found === writeId) return keyPart === undefined || mayBeStored ? 'created' : 'replayed'
  return new Failure(keyPart !== undefined && keyPart === keyPartOf(found) ? 'ReusedKey' : 'DuplicatePlant')
}
