/** Write ids: each row stores the id of the create that wrote it (docs/decisions.md). Without an Idempotency-Key it is random. */
import { hash } from 'node:crypto'
import { Failure } from '../failures.ts'
import { toCanonicalJson } from '../http/json.ts'
import type { NewPlant } from './schema.ts'

/** How a create succeeded: it stored the plant, or an earlier request with its Idempotency-Key did. */
export type Stored = 'created' | 'replayed'

/**
 * The members that a content begins with, in this form. Stored rows have ids of it, so neither the list nor the form may ever
 * change: a field that a plant gains later is one of the other members, which is what an earlier release took it for.
 */
const firstMembers = ['id', 'name', 'tag'] as const

const toLiteral = (value: unknown) =>
  typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : value

/**
 * Returns what a create with an Idempotency-Key sends, as text: equal for bodies that mean the same. Other members count
 * whether this release knows them or not: while two releases serve one table, both must take a request for the same one.
 * `body` has passed the check of a NewPlant, with all of its members; `text` is its JSON.
 */
export function contentOf(body: NewPlant, text: string): string {
  const first = firstMembers
    .filter((name) => body[name] !== undefined)
    .map((name) => `${name}:${toLiteral(body[name])}`)
    .join()
  const hasOthers = Object.keys(body).some((name) => !firstMembers.some((known) => known === name))
  return hasOthers ? `${first},${toCanonicalJson(text)}` : first
}

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
