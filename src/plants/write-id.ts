/**
 * Write ids. Each row stores the id of the create that wrote it, so that a repeat of the create can
 * find its own row (docs/decisions.md). The id is derived from the Idempotency-Key and the content;
 * without a key, it is random.
 */
import { hash } from 'node:crypto'
import { Failure } from '../failures.ts'
import { toCanonicalJson } from '../http/json.ts'
import type { NewPlant } from './schema.ts'

/** How a create succeeded: it stored the plant, or an earlier request with its key had done so. */
export type Stored = 'created' | 'replayed'

/**
 * The members with which the text of a content begins.
 *
 * Never change this list, nor how the members are written. The write ids in the table are hashes of
 * this text, so a repeat of an old request would no longer find its row. If plants gain a field, do
 * not add it here: an earlier release that serves the same table counts it among the other members,
 * and both must derive the same id.
 */
const firstMembers = ['id', 'name', 'tag'] as const

const toLiteral = (value: unknown) =>
  typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : value

/**
 * Returns the content of a create with an Idempotency-Key, as a text that is equal for bodies that
 * mean the same. All members count, whether this release knows them or not: while two releases
 * serve one table, both must recognise the same request. `body` is a valid NewPlant that still has
 * all of its members, and `text` is its JSON.
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
 * Returns the write id of a create with an Idempotency-Key, which is the same for the same caller,
 * key and content. It is a UUID of version 8 (RFC 9562, section 5.8): 48 bits are a hash of the
 * caller and the key, and 72 bits a hash of all three.
 */
export function deriveWriteId(caller: string, key: string, content: string): string {
  // The lengths keep the parts apart: otherwise `a` with the key `bc` would equal `ab` with `c`.
  const keyed = hash('sha256', `${caller.length}:${caller}${key.length}:${key}`)
  const whole = hash('sha256', keyed + content)
  const digits = `${keyed.slice(0, 12)}8${whole.slice(0, 3)}a${whole.slice(3, 18)}`
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/**
 * Returns the part of a write id that depends only on the caller and the key, or undefined if the
 * id is random, which its version, 4, shows.
 */
export const keyPartOf = (writeId: string): string | undefined => /^.{8}-.{4}-8/.exec(writeId)?.[0]

/**
 * Returns the outcome of a create that has inserted no row. `found` is the write id of the row that
 * has the plant's id; without such a row, nothing is known, and undefined is returned.
 * `mayBeStored` says that an earlier attempt at this create may have stored the plant.
 */
export function outcomeOf(writeId: string, found: string | undefined, mayBeStored: boolean) {
  if (found === undefined) return undefined
  const keyPart = keyPartOf(writeId)
  // The row is the create's own. If an earlier attempt of the same request may have stored it, the
  // client is told that the plant was created, and not that the request was a repeat. Without a key
  // no other request has this id, so it can only be an earlier attempt.
  if (found === writeId) return keyPart === undefined || mayBeStored ? 'created' : 'replayed'
  return new Failure(
    keyPart !== undefined && keyPart === keyPartOf(found) ? 'ReusedKey' : 'DuplicatePlant'
  )
}
