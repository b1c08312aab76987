/** Write ids: each row stores the id of the create that wrote it (docs/decisions/write-id-in-the-row.md). */
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
  const keyed = hashKey(caller, key)
  const whole = hash('sha256', keyed + content)
  return toUuid(`${keyed.slice(0, 12)}8${whole.slice(0, 3)}a${whole.slice(3, 18)}`)
}

/** Returns whether two write ids are of the same caller and key. */
export const isOfSameKey = (one: string, other: string): boolean => keyOf(one) === keyOf(other)

/** Returns the write id that version 1.0.0 gave to creates with this key, whatever their content. */
export function deriveFormerWriteId(caller: string, key: string): string {
  const digits = hashKey(caller, key)
  const variant = (0x8 | (Number.parseInt(digits.charAt(16), 16) & 0x3)).toString(16)
  return toUuid(`${digits.slice(0, 12)}8${digits.slice(13, 16)}${variant}${digits.slice(17, 32)}`)
}

/** Hashes both, with their lengths: without these, a longer caller and a shorter key could give the same text. */
const hashKey = (caller: string, key: string) =>
  hash('sha256', `${caller.length}:${caller}${key.length}:${key}`)

const toUuid = (digits: string) => digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')

/** The part that depends on the caller and the key alone, with the version, which differs from that of a random id. */
const keyOf = (writeId: string) => writeId.slice(0, 'xxxxxxxx-xxxx-8'.length)

/** Returns whether version 1.0.0 wrote the row with this write id for the create's key. */
export const isFormer = ({ caller, idempotencyKey: key }: WriteContext, found: string | undefined): boolean =>
  key !== undefined && found !== undefined && found === deriveFormerWriteId(caller, key)

/**
 * Returns what became of a create that has inserted no row. `found` is the write id of the row that has its id, if there is
 * one; `isSame` is whether version 1.0.0 wrote that row for its key and content; `mayBeStored` is whether an earlier attempt
 * at this create may have written it.
 */
export function outcomeOf(
  create: WriteContext & { readonly writeId: string },
  found: string | undefined,
  isSame: boolean,
  mayBeStored: boolean
): Stored | Failure | undefined {
  if (found === undefined) return undefined
  const { idempotencyKey: key, writeId } = create
  // A plant that an earlier attempt at this create stored is new to its client.
  if (found === writeId) return key === undefined || mayBeStored ? 'created' : 'replayed'
  if (isSame) return 'replayed'
  return new Failure(key !== undefined && isOfSameKey(found, writeId) ? 'ReusedKey' : 'DuplicatePlant')
}
