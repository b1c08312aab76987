/** Reading a request's body: into one buffer, as long as there is room, then as JSON with exact integers. */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'
import type { Shares } from '../shared/shares.ts'
import { releaseHead } from './head.ts'

/** The message for a client whose body finds no room. */
export const tooManyBodies = { message: 'too many bodies are arriving' }

/** Returns the names of a schema's properties that are exact integers. */
export const namesOfIntegers = ({ properties }: TObject) =>
  Object.keys(properties).filter((name) => properties[name]?.int64)

type Done = (error: Error | null, body?: unknown) => void

/**
 * Returns a content type parser for JSON of a schema, whose members with `int64` are exact. It reads a body into one
 * buffer: of the announced length, or, for a chunked body, doubled when it is full. `bodies` is the budget of bytes
 * that may be arriving at the same time.
 */
export function createBodyParser(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(namesOfIntegers(schema))
  return (request: FastifyRequest, _: unknown, done: Done) => {
    const { raw, caller, connection } = request
    const { 'content-length': announced } = raw.headers
    let buffer: Buffer = Buffer.alloc(0)
    let length = 0
    let held = 0

    function fail(failure: Failure) {
      finish()
      done(failure)
    }

    function add(chunk: Buffer) {
      const total = length + chunk.length
      if (total > limitBytes) return fail(new Failure('BodyTooLarge'))
      // A body that comes in one piece is parsed in this turn of the event loop, and needs no copy.
      if (length === 0 && total === Number(announced)) buffer = chunk
      else if (hasRoom(total)) buffer.set(chunk, length)
      else return fail(new Failure('Overloaded', tooManyBodies))
      length = total
    }

    /** Makes the buffer large enough, if there is room. */
    function hasRoom(total: number): boolean {
      if (total <= buffer.length) return true
      const bytes = Number(announced ?? Math.min(limitBytes, Math.max(1_024, 2 * total)))
      // The old buffer does not count: both exist only during the copy, so for one body at a time.
      release()
      if (!bodies.take(caller, bytes)) return false
      held = bytes
      const larger = Buffer.allocUnsafeSlow(bytes)
      larger.set(buffer)
      buffer = larger
      return true
    }

    function end() {
      finish()
      raw.trailers = {}
      raw.rawTrailers = []
      const body = buffer.subarray(0, length)
      if (!isUtf8(body)) return done(new Failure('MalformedBody', { message: 'the body is not valid UTF-8' }))
      try {
        done(null, read(body))
      } catch (error) {
        done(error instanceof Failure ? error : new Failure('MalformedBody'))
      }
    }

    function finish() {
      raw.off('data', add).off('end', end).off('close', leave)
      release()
    }

    /** The client has gone. */
    function leave() {
      fail(new Failure('MalformedRequest'))
    }

    function release() {
      bodies.release(caller, held)
      held = 0
    }

    connection?.expectBody(raw, fail)
    raw.on('data', add).on('end', end).on('close', leave)
    releaseHead(request)
  }
}

const number = /(-?)(\d+(\.\d+)?)(?:[eE]([+-]?)0*(\d+))?/g
const nonZero = /[1-9]/g
const int64Digits = 19
const int64Characters = int64Digits + 1 // and a point

/**
 * Returns a function that parses a JSON text (RFC 8259) in UTF-8. A member of the outermost object with one of these names,
 * in ASCII, that is mathematically an integer of up to 19 digits becomes a bigint, however it is spelled (1.0 and 1e3
 * count); any other number stays as JSON.parse returns it. Throws a SyntaxError, or a Failure for too many levels.
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

const maximumDepth = 1_000
const [quote, colon, backslash, letterU] = [0x22, 0x3a, 0x5c, 0x75]
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d]

// Four bytes at a time, spaces and digits take a quarter of the time. For a short text, making the view takes longer.
const noWords = new DataView(new ArrayBuffer(0))

/**
 * Writes into `offsets`, for each key, the offset after the colon of the last such member of the outermost object; for a
 * text that is not JSON, any offset. Throws a Failure if arrays and objects are nested more than 1,000 deep.
 */
export function findMembers(bytes: Buffer, keys: readonly Buffer[], offsets: number[]): void {
  const { length } = bytes
  const words = length < 256 ? noWords : new DataView(bytes.buffer, bytes.byteOffset, length)
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
      if (++depth > maximumDepth)
        throw new Failure('MalformedBody', { message: 'the body is nested too deeply' })
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

/** Whether a string is this key. Each of its characters may be written as an escape with four digits. */
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
