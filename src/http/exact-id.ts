/** Reading a JSON text whose member "id" is an exact integer: what JSON.parse alone rounds. */
import { findId } from './json-scan.ts'

const number = /(-?)(\d+(\.\d+)?)(?:[eE]([+-]?)0*(\d+))?/g
const nonZero = /[1-9]/g
const int64Digits = 19
// 19 digits and a point.
const int64Characters = 20

/**
 * Parses a JSON text (RFC 8259) in UTF-8. A member "id" of the outermost object that is mathematically an integer of up
 * to 19 digits becomes a bigint, however it is spelled (1.0 and 1e3 count); any other number stays what JSON.parse gives.
 * Throws a SyntaxError for what is not JSON, and NestedTooDeeply.
 */
export function parseWithExactId(body: Buffer): unknown {
  // Before JSON.parse, which takes up to 100 MB of memory for a megabyte of brackets.
  const idAt = findId(body)
  const text = body.toString()
  const value = JSON.parse(text)
  if (!isObject(value) || typeof value.id !== 'number') return value
  // The offset counts bytes. In ASCII these are characters; read as Latin-1 they are in any text.
  const exact = toInteger(text.length === body.length ? text : body.toString('latin1'), idAt)
  if (exact !== undefined) value.id = exact
  return value
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Gives the integer that the JSON number at an offset stands for, or undefined for a fraction or over 19 digits. */
function toInteger(text: string, at: number): bigint | undefined {
  number.lastIndex = at
  const [source, sign, mantissa = '', fraction = '', direction = '', power] = number.exec(
    text
  ) as RegExpExecArray
  if (fraction === '' && power === undefined && mantissa.length <= int64Digits) return BigInt(source)
  const first = mantissa.search(nonZero)
  if (first === -1) return 0n
  nonZero.lastIndex = first + int64Characters
  if (nonZero.test(mantissa)) return undefined
  const significant = mantissa.slice(first, first + int64Characters).replace(/[0.]+$/, '')
  const pastPoint = first + significant.length - (mantissa.length - fraction.length)
  const places = pastPoint > 0 ? pastPoint - 1 : pastPoint
  const digits = significant.replace('.', '')
  const zeros = Number(direction + (power ?? '0').slice(0, 20)) - places
  if (zeros < 0 || digits.length + zeros > int64Digits) return undefined
  return BigInt(sign + digits + '0'.repeat(zeros))
}
