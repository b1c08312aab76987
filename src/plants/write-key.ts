/** The Idempotency-Key of a request, and the write id that a row is recognised by when its write is repeated. */
import { hash, randomUUID } from 'node:crypto'
import { Failure } from '../failures/failure.ts'

/** RFC 9651, section 3.3.3: a string in quotes, with only quotes and backslashes escaped. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/
/** The form that many clients send: visible ASCII without quotes, and without commas, which separate repeated fields. */
const bare = /^[\x21\x23-\x2b\x2d-\x7e]+$/
const maximumLength = 255

/**
 * Reads the field's value, in quotes (IETF draft "The Idempotency-Key HTTP Header Field") or bare, which is the same
 * key. Returns undefined where there is none. Throws a Failure for an empty, malformed, repeated or too long one.
 */
export function parseIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const key = quoted.exec(value)?.[1]?.replace(/\\(.)/g, '$1') ?? bare.exec(value)?.[0] ?? ''
  if (key === '' || key.length > maximumLength) throw new Failure('MalformedKey')
  return key
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
