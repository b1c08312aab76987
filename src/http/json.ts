/** Parses JSON with exact integers, and limits how many values it has. */
import type { TObject } from '@sinclair/typebox'
import { Failure } from '../failures.ts'

/**
 * How many values a body may have: itself, and each member and element at any depth; an empty array or object counts as two.
 * With this limit, JSON.parse takes about 3 ms for 1 MiB of any shape; without it, up to 380 ms, and memory for each level.
 */
export const maximumValues = 2_000

/** A number that may be written with a fraction or an exponent: JSON.parse can round it to an integer. */
const mayBeRounded = /\d[.eE]/

/**
 * Returns a function that parses a JSON text (RFC 8259) in UTF-8. A member of the outermost object with format int64 in the schema
 * that is mathematically an integer of up to 19 digits becomes a bigint, however it is spelled (1.0 and 1e3 count); any
 * other number stays as JSON.parse returns it. Throws a SyntaxError, or a Failure for too many values.
 */
export function createJsonReader({ properties }: TObject): (body: Buffer) => unknown {
  const names = Object.keys(properties).filter((name) => properties[name]?.format === 'int64')
  return (body) => {
    // Each value has a byte of its own.
    if (body.length > maximumValues) limitValues(body)
    const text = body.toString()
    const value = JSON.parse(text)
    for (const name of names) {
      const number = value?.[name]
      if (typeof number !== 'number') continue
      const isExact = Number.isSafeInteger(number) && !mayBeRounded.test(text)
      value[name] = (isExact ? BigInt(number) : toInteger(findSource(text, name))) ?? number
    }
    return value
  }
}

type Reviver = (this: object, key: string, value: unknown, context: { source?: string }) => unknown

/** Returns how the number is written that a member of the outermost object has. */
function findSource(text: string, name: string): string {
  const sources = new Map<object, string>()
  const note: Reviver = function (key, value, { source }) {
    if (key === name && source !== undefined) sources.set(this, source)
    return value
  }
  const outermost = JSON.parse(text, note as Parameters<typeof JSON.parse>[1])
  return sources.get(outermost) as string
}

const jsonNumber = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Returns the value of a JSON number; undefined for a fraction, and for more digits than the largest int64 has. */
function toInteger(source: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', power] = jsonNumber.exec(source) as RegExpExecArray
  // The comments show what becomes of 0.01250e6.
  const digits = (whole + fraction).replace(/^0+/, '') // 1250
  let end = digits.length
  while (digits[end - 1] === '0') end-- // 3
  if (end === 0) return 0n
  const zeros = Number(power ?? 0) - fraction.length + digits.length - end // 6 - 5 + 4 - 3
  if (zeros < 0 || end + zeros > 19) return undefined
  return BigInt(sign + digits.slice(0, end) + '0'.repeat(zeros)) // 12500
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
        throw new Failure('MalformedBody', { message: `the body has more than ${maximumValues} values` })
  }
}
