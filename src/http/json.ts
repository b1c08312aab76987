/** Reading a JSON text of which some members are exact integers: JSON.parse alone rounds them. */

const number = /(-?)(\d+(\.\d+)?)(?:[eE]([+-]?)0*(\d+))?/g
const nonZero = /[1-9]/g
const int64Digits = 19
// 19 digits and a point.
const int64Characters = 20

/**
 * Returns a function that parses a JSON text (RFC 8259) in UTF-8. A member of the outermost object with one of these names,
 * in ASCII, that is mathematically an integer of up to 19 digits becomes a bigint, however it is spelled (1.0 and 1e3
 * count); any other number stays as JSON.parse returns it. Throws a SyntaxError for what is not JSON, and NestedTooDeeply.
 */
export function createJsonReader(names: readonly string[]): (body: Buffer) => unknown {
  const keys = names.map((name) => Buffer.from(name))
  const offsets = names.map(() => -1)
  return (body) => {
    // First, since it limits the depth: JSON.parse takes up to 100 MB of memory for a megabyte of brackets.
    findMembers(body, keys, offsets)
    const text = body.toString()
    const value = JSON.parse(text)
    for (let index = 0; index < names.length; index++) {
      const name = names[index] as string
      if (typeof value?.[name] !== 'number') continue
      // The offset counts bytes. In an ASCII text, and in any text that is read as Latin-1, they are characters.
      const characters = text.length === body.length ? text : body.toString('latin1')
      const exact = toInteger(characters, offsets[index] as number)
      if (exact !== undefined) value[name] = exact
    }
    return value
  }
}

/** Returns the integer that the JSON number at an offset stands for, or undefined for a fraction or over 19 digits. */
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

/** Thrown for a text whose arrays and objects are nested more than 1,000 deep. */
export class NestedTooDeeply extends Error {
  override readonly message = 'the body is nested too deeply'
}

const maximumDepth = 1_000
const [quote, colon, backslash, letterU] = [0x22, 0x3a, 0x5c, 0x75]
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]

// Four bytes at a time, spaces and digits take a quarter of the time. For a short text, making the view takes longer.
const longText = 256
const noWords = new DataView(new ArrayBuffer(0))

/**
 * Writes into `offsets`, for each key, the offset after the colon of the last such member of the outermost object; for a
 * text that is not JSON, any offset. Throws NestedTooDeeply.
 */
export function findMembers(bytes: Buffer, keys: readonly Buffer[], offsets: number[]): void {
  const { length } = bytes
  const words = length < longText ? noWords : new DataView(bytes.buffer, bytes.byteOffset, length)
  const lastWord = words.byteLength - 4
  let depth = 0
  let keyStart = 0
  let keyEnd = 0
  for (let at = 0; at < length; at++) {
    while (at < lastWord && isBetweenTokens(words.getInt32(at))) at += 4
    const byte = bytes[at]
    if (byte === quote) {
      keyStart = at + 1
      for (at = keyStart; at < length && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++
      keyEnd = at
    } else if (byte === colon) {
      for (let index = 0; depth === 1 && index < keys.length; index++)
        if (isKey(bytes, keyStart, keyEnd, keys[index] as Buffer)) offsets[index] = at + 1
    } else if (byte === openArray || byte === openObject) {
      if (++depth > maximumDepth) throw new NestedTooDeeply()
    } else if (byte === closeArray || byte === closeObject) depth--
  }
}

/** Whether none of four bytes outside of strings is a quote, a colon, a bracket or a brace; an f may count as one. */
function isBetweenTokens(word: number): boolean {
  // Of all such bytes only " : [ { and f have bit 1 and equal bits 3 and 4, only ] and } have bits 2, 3 and 4.
  const opening = word & ~((word >>> 2) ^ (word >>> 3)) & 0x02020202
  const closing = word & (word >>> 1) & (word >>> 2) & 0x04040404
  return (opening | closing) === 0
}

/** Whether a string is this key, each of whose characters may be escaped by its four digits. */
function isKey(bytes: Buffer, start: number, end: number, key: Buffer): boolean {
  let at = start
  for (let index = 0; index < key.length; index++) {
    const character = key[index]
    if (bytes[at] === character) at++
    else if (
      bytes[at] === backslash &&
      bytes[at + 1] === letterU &&
      Number.parseInt(bytes.toString('latin1', at + 2, at + 6), 16) === character
    )
      at += 6
    else return false
  }
  return at === end
}
