/** Reading a JSON text whose member "id" is an exact integer: what JSON.parse alone rounds. */

type Reviver = (this: object, key: string, value: unknown, context: { source: string }) => unknown

// The reviver's third argument is ECMAScript's, but not yet in TypeScript's library.
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown

/** Thrown for a text whose arrays and objects stand in one another more than 1,000 deep. */
export class NestedTooDeeply extends Error {
  override readonly message = 'the body is nested too deeply'
}

const maximumDepth = 1_000
const plainInteger = /\s*:\s*(-?\d{1,19})(?=\s*[,}])/y
const number = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
const int64Digits = 19

/**
 * Parses a JSON text (RFC 8259). A member "id" of the outermost object that is mathematically an integer of up to
 * 19 digits becomes a bigint, however it is spelled (1.0 and 1e3 count); any other number stays what JSON.parse gives.
 * Throws a SyntaxError for what is not JSON, and NestedTooDeeply.
 */
export function parseWithExactId(text: string): unknown {
  if (isTooDeep(text)) throw new NestedTooDeeply()
  const value = JSON.parse(text)
  if (!isObject(value) || typeof value.id !== 'number') return value
  const plain = findPlainId(text)
  const exact = plain === undefined ? toInteger(sourceOfId(text)) : BigInt(plain)
  if (exact !== undefined) value.id = exact
  return value
}

function isTooDeep(text: string): boolean {
  if (text.length <= maximumDepth) return false
  let depth = 0
  let inString = false
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (inString) {
      if (character === '\\') index++
      else if (character === '"') inString = false
    } else if (character === '"') inString = true
    else if (character === '[' || character === '{') depth++
    else if (character === ']' || character === '}') depth--
    if (depth > maximumDepth) return true
  }
  return false
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Gives the digits of an id that is written as nearly every id is, without a second parse: where the text has "id" in
 * quotes just once, and no escape that spells one of its letters, that once is the member.
 */
function findPlainId(text: string): string | undefined {
  const at = text.indexOf('"id"')
  if (at === -1 || text.includes('"id"', at + 4)) return undefined
  if (text.includes('\\u0069') || text.includes('\\u0064')) return undefined
  plainInteger.lastIndex = at + 4
  return plainInteger.exec(text)?.[1]
}

/** Gives the text of the outermost object's id, the last one where there are several. */
function sourceOfId(text: string): string {
  const sources = new WeakMap<object, string>()
  const root = parseWithSource(text, function (key, value, { source }) {
    if (key === 'id' && typeof value === 'number') sources.set(this, source)
    return value
  })
  return sources.get(root as object) as string
}

/** Gives the integer that a JSON number stands for, or undefined for a fraction or more than 19 digits. */
function toInteger(source: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', exponent = '0'] = number.exec(source) as RegExpExecArray
  const digits = whole + fraction
  let first = 0
  while (digits[first] === '0') first++
  let end = digits.length
  while (end > first && digits[end - 1] === '0') end--
  if (first === end) return 0n
  const zeros = Number(exponent) - fraction.length + digits.length - end
  if (zeros < 0 || end - first + zeros > int64Digits) return undefined
  return BigInt(sign + digits.slice(first, end) + '0'.repeat(zeros))
}
