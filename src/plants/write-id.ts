/** Write ids: each row stores the id of the create that wrote it (docs/decisions.md). */
import { hash, randomUUID } from 'node:crypto'
import { Failure } from '../failures.ts'

/** Who creates a plant, and by which Idempotency-Key. */
export interface WriteContext {
  readonly caller: string
  readonly idempotencyKey?: string | undefined
}

/** How a create succeeded: it stored the plant, or an earlier request with its Idempotency-Key did. */
export type Stored = 'created' | 'replayed'

/** Returns a unique write id, for a create that only the service repeats. */
export const randomWriteId = (): string => randomUUID()

/**
 * Returns the write id of a create with an Idempotency-Key: the same for the same caller, key and content. A UUID of
 * version 8 (RFC 9562, section 5.8): 48 bits of a hash of the caller and the key, then 72 bits of a hash of all three.
 */
export function deriveWriteId(caller: string, key: string, content: string): string {
  // With the lengths: without them, a longer caller and a shorter key could give the same text.
  const keyed = hash('sha256', `${caller.length}:${caller}${key.length}:${key}`)
  const whole = hash('sha256', keyed + content)
  const digits = `${keyed.slice(0, 12)}8${whole.slice(0, 3)}a${whole.slice(3, 18)}`
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Of a write id with a key: the part that depends on the caller and the key alone, and the version, which no random id has. */
const keyLength = 'xxxxxxxx-xxxx-8'.length

/** Returns whether two write ids are of the same caller and key. */
export const isOfSameKey = (one: string, other: string): boolean =>
  one.slice(0, keyLength) === other.slice(0, keyLength)

/**
 * Returns what became of a create that has inserted no row. `found` is the write id of the row that has its id, if there is
 * one; `mayBeStored` is whether an earlier attempt at this create may have written it.
 */
export function outcomeOf(
  create: WriteContext & { readonly writeId: string },
  found: string | undefined,
  mayBeStored: boolean
): Stored | Failure | undefined {
  if (found === undefined) return undefined
  const { idempotencyKey: key, writeId } = create
  // A plant that an earlier attempt at this create stored is new to its client.
  if (found === writeId) return key === undefined || mayBeStored ? 'created' : 'replayed'
  return new Failure(key !== undefined && isOfSameKey(found, writeId) ? 'ReusedKey' : 'DuplicatePlant')
}
