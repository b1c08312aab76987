/**
 * The JSON texts (RFC 8259) of requests: how they are bounded, how integers stay exact, and how to
 * tell whether two texts mean the same.
 */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import { Failure } from '../failures.ts'

/** The media type of the bodies of requests and responses. */
export const jsonType = 'application/json'

/**
 * How many values a body may have: the body itself, and each member and element at any depth. An
 * empty array or object counts as two. Without this limit, 1 MiB of values would stop the process
 * for up to 250 ms, and each level of nesting would take memory.
 */
export const maximumValues = 2_000

/**
 * Returns the text of a body. Throws a Failure if the body is not UTF-8, or has too many values.
 */
export function decodeJson(body: Buffer): string {
  if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
  // Each value takes at least one byte, so a shorter body cannot have too many.
  if (body.length > maximumValues) limitValues(body)
  return body.toString()
}

const [quote, comma, backslash, openArray, openObject] = Buffer.from('",\\[{')

/**
 * Throws a Failure if a body has too many values. JSON.parse would take time and memory for each,
 * so count them first.
 */
function limitValues(bytes: Buffer): void {
  let values = 1
  let isText = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === quote) isText = !isText
    else if (isText) at += byte === backslash ? 1 : 0
    else if (byte === comma || byte === openArray || byte === openObject)
      if (++values > maximumValues)
        throw new Failure('MalformedBody', {
          message: `the body has more than ${maximumValues} values`
        })
  }
}

/** Matches a number with a fraction or an exponent, which JSON.parse can round to an integer. */
const mayBeRounded = /\d[.eE]/

/**
 * Returns a function that parses a JSON text. The fields of format int64 are exact: a number in a
 * member with such a name becomes a bigint if it is an integer of 64 bits, however it is written
 * (1.0 and 1e3 are integers, too). Any other number stays as JSON.parse returns it. The function
 * throws the Failure MalformedBody.
 */
export function createJsonReader({ properties }: TObject): (text: string) => unknown {
  const names = Object.keys(properties).filter((name) => properties[name]?.format === 'int64')
  // JSON.parse calls this at every depth, also in objects for which the schema has no members.
  const revive = (name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && names.includes(name)
      ? (toInteger(context?.source ?? '', value) ?? value)
      : value
  return (text) => {
    try {
      const value = JSON.parse(text)
      for (const name of names) {
        const number = value?.[name]
        if (typeof number !== 'number') continue
        if (!Number.isSafeInteger(number) || mayBeRounded.test(text))
          return JSON.parse(text, revive)
        value[name] = BigInt(number)
      }
      return value
    } catch {
      throw new Failure('MalformedBody')
    }
  }
}

/**
 * Returns the exact value of a JSON number, which JSON.parse rounds to `number`. Returns undefined
 * for a fraction, and for a number that is certainly too large. The schema checks the exact bounds.
 */
function toInteger(source: string, number: number): bigint | undefined {
  // The exponent of a larger number could be so large that its digits cannot be written out.
  if (!Number.isInteger(number) || Math.abs(number) > 2 ** 63) return undefined
  const { sign, digits, exponent } = parseDecimal(source)
  // A very small fraction, which JSON.parse has rounded to 0, gets here.
  if (exponent < 0) return undefined
  return BigInt(`${sign}${digits}${'0'.repeat(exponent)}`)
}

/**
 * Returns what a JSON number means: its digits without zeros at either end ("0" for zero), times a
 * power of ten. The exponent is inexact if it is not a safe integer. A BigInt would be exact, but
 * with an exponent of a million digits it would stop the process for half a second.
 */
function parseDecimal(source: string) {
  const [mantissa = '', power = '0'] = source.split(/e/i)
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = (whole + fraction).replace(/^0+/, '')
  let end = all.length
  // Do not use a regular expression here. For a long run of zeros before another digit, its time
  // would grow with the square of the run's length.
  while (all[end - 1] === '0') end--
  if (end === 0) return { sign: '', digits: '0', exponent: 0 }
  return {
    sign: mantissa.startsWith('-') ? '-' : '',
    digits: all.slice(0, end),
    exponent: Number(power) + all.length - end - fraction.length
  }
}

/**
 * Returns the canonical form of a valid JSON text. Two texts have the same form if and only if they
 * have the same value, however they are written. Members are sorted by name, and the last of
 * several members with one name counts. Numbers are compared exactly, not as JSON.parse rounds
 * them. Only numbers whose exponents are not safe integers are compared as they are written. RFC
 * 8785 does not fit, because its numbers are doubles.
 */
export const toCanonicalJson = (text: string): string => JSON.parse(text, canonicalize)

/**
 * Makes the canonical form of one value; it is a reviver of JSON.parse. JSON.parse calls it for the
 * members of a value before the value itself, so here the members are texts already.
 */
function canonicalize(_: string, value: unknown, context?: { source?: string }): string {
  if (typeof value === 'number') {
    const source = context?.source ?? ''
    const { sign, digits, exponent } = parseDecimal(source)
    return Number.isSafeInteger(exponent) ? `${sign}${digits}e${exponent}` : source
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.join()}]`
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([name, form]) => `${JSON.stringify(name)}:${form}`).join()}}`
}
