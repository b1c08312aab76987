/** JSON texts (RFC 8259) of requests: bounded, with exact integers, and in a form that says when two of them mean the same. */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import { Failure } from '../failures.ts'

/** The media type of bodies, in requests and in responses. */
export const jsonType = 'application/json'

/**
 * How many values a body may have: itself, and each member and element at any depth; an empty array or object counts as two.
 * Without it, 1 MiB of values would stop the process for up to 250 ms, and each level takes memory.
 */
export const maximumValues = 2_000

/** Returns the text of a body in UTF-8. Throws a Failure if it is not UTF-8, or has too many values. */
export function decodeJson(body: Buffer): string {
  if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
  // Each value takes a byte or more, so a shorter body cannot have too many.
  if (body.length > maximumValues) limitValues(body)
  return body.toString()
}

const [quote, comma, backslash, openArray, openObject] = Buffer.from('",\\[{')

/** Throws a Failure for too many values: before JSON.parse, whose time and memory they would take. */
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

/** A number that may be written with a fraction or an exponent: JSON.parse can round it to an integer. */
const mayBeRounded = /\d[.eE]/

/**
 * Returns a function that parses a JSON text. A member with the name of a field of format int64 that is mathematically an
 * integer in the range of an int64 becomes a bigint, however it is spelled (1.0 and 1e3 count); any other number stays as
 * JSON.parse returns it. Throws the Failure MalformedBody.
 */
export function createJsonReader({ properties }: TObject): (text: string) => unknown {
  const names = Object.keys(properties).filter((name) => properties[name]?.format === 'int64')
  // Also below the outermost object, where the schema has no members.
  const revive = (name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && names.includes(name)
      ? (toInteger(context?.source ?? '', value) ?? value)
      : value
  return (text) => {
    try {
      const value = JSON.parse(text)
      const numbers = names.filter((name) => typeof value?.[name] === 'number')
      const areExact =
        numbers.every((name) => Number.isSafeInteger(value[name])) && !mayBeRounded.test(text)
      if (!areExact) return JSON.parse(text, revive)
      for (const name of numbers) value[name] = BigInt(value[name])
      return value
    } catch {
      throw new Failure('MalformedBody')
    }
  }
}

/** Returns the value of a JSON number, which JSON.parse rounds to `number`; undefined for a fraction, and beyond an int64. */
function toInteger(source: string, number: number): bigint | undefined {
  // Beyond this, its exponent may be too large for the digits to be written out.
  if (!Number.isInteger(number) || Math.abs(number) > 2 ** 63) return undefined
  const { sign, digits, exponent } = parseDecimal(source)
  // A fraction that is too small for a double has been rounded to 0.
  if (exponent < 0) return undefined
  return BigInt(`${sign}${digits}${'0'.repeat(exponent)}`)
}

/**
 * Returns what a JSON number means: its digits without zeros at either end ("0" for zero), times a power of ten. An exponent
 * that is no safe integer is not exact: as a BigInt, one of a million digits would stop the process for half a second.
 */
function parseDecimal(source: string) {
  const [mantissa = '', power = '0'] = source.split(/e/i)
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = (whole + fraction).replace(/^0+/, '')
  let end = all.length
  // Not by a regular expression: a long run of zeros before another digit would take it the square of the run's length.
  while (all[end - 1] === '0') end--
  if (end === 0) return { sign: '', digits: '0', exponent: 0 }
  return {
    sign: mantissa.startsWith('-') ? '-' : '',
    digits: all.slice(0, end),
    exponent: Number(power) + all.length - end - fraction.length
  }
}

/**
 * Returns the canonical form of a valid JSON text: two texts with the same value have the same form, however they are
 * spelled. Members are sorted by name, and numbers are compared exactly, not as JSON.parse rounds them, but by their spelling
 * where the exponent is beyond all safe integers; of members with one name the last one counts. Unlike RFC 8785, whose numbers are doubles.
 */
export const toCanonicalJson = (text: string): string => JSON.parse(text, canonicalize)

/** A reviver of JSON.parse, which calls it for the members of a value first: here they are texts already. */
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
