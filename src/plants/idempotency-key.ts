/** The Idempotency-Key of a request. */
import { Failure } from '../failures/failure.ts'

/** RFC 9651, section 3.3.3: a string in quotes, with only quotes and backslashes escaped. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/
/** As many clients send it: visible ASCII but for commas (they separate repeated fields) and quotes. */
const bare = /^[\x21\x23-\x2b\x2d-\x7e]+$/
const maximumLength = 255

/**
 * Reads the field's value, in quotes (IETF draft "The Idempotency-Key HTTP Header Field") or bare, which is the same
 * key. Gives undefined where there is none. Throws a Failure for an empty, malformed, repeated or too long one.
 */
export function parseIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const key = quoted.exec(value)?.[1]?.replace(/\\(.)/g, '$1') ?? bare.exec(value)?.[0] ?? ''
  if (key === '' || key.length > maximumLength) throw new Failure('MalformedKey')
  return key
}
