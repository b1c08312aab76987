/** One pass over the bytes of a JSON text: how deep it nests, and where the outermost object's "id" is. */

/** Thrown for a text whose arrays and objects stand in one another more than 1,000 deep. */
export class NestedTooDeeply extends Error {
  override readonly message = 'the body is nested too deeply'
}

const maximumDepth = 1_000
const [quote, colon, backslash] = [0x22, 0x3a, 0x5c]
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]
const [letterI, letterD] = [0x69, 0x64]
const escapedIds = ['\\u0069d', 'i\\u0064', '\\u0069\\u0064']

// Long texts are read four bytes at a time. To make the view takes longer than to read a short text byte by byte.
const longText = 256
const noWords = new DataView(new ArrayBuffer(0))

/**
 * Gives the offset behind the colon of the last member "id" of the outermost object, -1 where there is none; of a text
 * that is not JSON, any offset. Throws NestedTooDeeply.
 */
export function findId(bytes: Buffer): number {
  const { length } = bytes
  const words = length < longText ? noWords : new DataView(bytes.buffer, bytes.byteOffset, length)
  const lastWord = words.byteLength - 4
  let depth = 0
  let keyStart = 0
  let keyEnd = 0
  let idAt = -1
  for (let at = 0; at < length; at++) {
    while (at < lastWord && isBetweenTokens(words.getInt32(at))) at += 4
    const byte = bytes[at]
    if (byte === quote) {
      keyStart = at + 1
      for (at = keyStart; at < length; at++) {
        while (at < lastWord && isPlainText(words.getInt32(at))) at += 4
        if (bytes[at] === quote) break
        if (bytes[at] === backslash) at++
      }
      keyEnd = at
    } else if (byte === colon) {
      if (depth === 1 && isId(bytes, keyStart, keyEnd)) idAt = at + 1
    } else if (byte === openArray || byte === openObject) {
      if (++depth > maximumDepth) throw new NestedTooDeeply()
    } else if (byte === closeArray || byte === closeObject) depth--
  }
  return idAt
}

/** Whether none of four bytes outside of strings is a quote, a colon, a bracket or a brace; an f may count as one. */
function isBetweenTokens(word: number): boolean {
  // Of all such bytes only " : [ { and f have bit 1 and equal bits 3 and 4, only ] and } have bits 2, 3 and 4.
  const opening = word & ~((word >>> 2) ^ (word >>> 3)) & 0x02020202
  const closing = word & (word >>> 1) & (word >>> 2) & 0x04040404
  return (opening | closing) === 0
}

/** Whether none of four bytes is a quote or a backslash. */
function isPlainText(word: number): boolean {
  // Where a byte is 0 after the exclusive or, and only there, the subtraction sets a high bit that was clear.
  const quotes = word ^ 0x22222222
  const backslashes = word ^ 0x5c5c5c5c
  const zeros = ((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)
  return (zeros & 0x80808080) === 0
}

function isId(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start
  if (length === 2) return bytes[start] === letterI && bytes[start + 1] === letterD
  return (length === 7 || length === 12) && escapedIds.includes(bytes.toString('latin1', start, end))
}
