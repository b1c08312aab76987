/** A request's body: what its header says about it, its caller's share of the memory, and its JSON, with exact integers. */
import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { MIMEType } from 'node:util'
import type { TObject } from '@sinclair/typebox'
import type { FastifyInstance, preParsingHookHandler } from 'fastify'
import { Failure } from '../failures.ts'
import { Shares } from '../shares.ts'

const json = 'application/json'
/** What a chunk takes besides its bytes. Without it, a body in chunks of one byte would take a hundred times its share. */
const chunkBytes = 256

/** A body of so few bytes is not counted, to keep creates cheap. In chunks of one byte it takes 32 KiB. */
const smallBytes = 128
const tooManyBodies = 'too many request bodies are being received'

/** Returns the first failure of what a request's header says about its body. */
export function checkBodyHeader(headers: IncomingHttpHeaders, limitBytes: number): Failure | undefined {
  const { 'content-type': type = '', 'content-length': length = '0' } = headers
  if (length === '0' && headers['transfer-encoding'] === undefined)
    return new Failure('MalformedBody', { message: 'a body is required' })
  const typeFailure = type === json ? undefined : checkType(type)
  if (typeFailure) return typeFailure
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
    return new Failure('UnsupportedMediaType', { message: 'the content encoding is not supported' })
  return Number(length) > limitBytes ? new Failure('BodyTooLarge') : undefined
}

/** Returns the failure of a media type that is not JSON in UTF-8 (RFC 8259, section 8.1). */
function checkType(type: string): Failure | undefined {
  try {
    const { essence, params } = new MIMEType(type)
    if (essence !== json) return new Failure('UnsupportedMediaType')
    const isUtf8 = /^utf-8$/i.test(params.get('charset') ?? 'utf-8')
    return isUtf8 ? undefined : new Failure('UnsupportedMediaType', { message: 'the charset must be UTF-8' })
  } catch {
    return new Failure('UnsupportedMediaType')
  }
}

/**
 * Makes the application read bodies whole, as JSON of a schema, whose members of format int64 are exact. Returns the hook of
 * the routes that have one. `memoryBytes` are for all bodies that are arriving at the same time, `limitBytes` for one body.
 */
export function readBodies(app: FastifyInstance, schema: TObject, memoryBytes: number, limitBytes: number) {
  const bodies = new Shares(memoryBytes)
  const read = createJsonReader(schema)
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: limitBytes } as const
  app.addContentTypeParser<Buffer>(json, options, (_, body, done) => done(null, read(body)))
  const holdBody: preParsingHookHandler = ({ raw, caller }, _reply, _payload, done) => {
    const announced = Number(raw.headers['content-length'])
    if (announced <= smallBytes) return done()
    let arrived = 0
    let held = 0
    const onData = ({ length }: Buffer) => {
      arrived += length
      // Fastify refuses it, and drops the rest.
      if (arrived > limitBytes) return release()
      // A body that comes in one piece is parsed at once, and so never held.
      if (length === announced) return
      const bytes = length + chunkBytes
      if (bodies.take(caller, bytes)) held += bytes
      else raw.emit('error', new Failure('Overloaded', { message: tooManyBodies }))
    }
    const release = () => {
      raw.off('data', onData).off('end', release).off('error', release)
      bodies.release(caller, held)
    }
    raw.on('data', onData).on('end', release).on('error', release)
    done()
  }
  return holdBody
}

/**
 * How many values a body may have: itself, and each member and element at any depth; an empty array or object counts as two.
 * Without it, 1 MiB of values would stop the process for up to 250 ms, and each level takes memory.
 */
export const maximumValues = 2_000

/** A number that may be written with a fraction or an exponent: JSON.parse can round it to an integer. */
const mayBeRounded = /\d[.eE]/

/**
 * Returns a function that parses a JSON text (RFC 8259) in UTF-8. A member with the name of a field of format int64 that is
 * mathematically an integer in the range of an int64 becomes a bigint, however it is spelled (1.0 and 1e3 count); any other
 * number stays as JSON.parse returns it. Throws a Failure.
 */
export function createJsonReader({ properties }: TObject): (body: Buffer) => unknown {
  const names = Object.keys(properties).filter((name) => properties[name]?.format === 'int64')
  // Also below the outermost object, where the schema has no members.
  const revive = (name: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && names.includes(name)
      ? (toInteger(context?.source ?? '', value) ?? value)
      : value
  return (body) => {
    if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
    if (body.length > maximumValues) limitValues(body) // each value has a byte of its own
    const text = body.toString()
    try {
      const value = JSON.parse(text)
      const numbers = names.filter((name) => typeof value?.[name] === 'number')
      const areExact = numbers.every((name) => Number.isSafeInteger(value[name])) && !mayBeRounded.test(text)
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
  // What is left has its point in its digits, or at most 19 places behind them.
  if (!Number.isInteger(number) || Math.abs(number) > 2 ** 63) return undefined
  const [mantissa = '', power = '0'] = source.split(/e/i)
  const [whole = '', fraction = ''] = mantissa.split('.')
  const digits = whole + fraction
  if (number === 0) return /[1-9]/.test(digits) ? undefined : 0n
  const point = whole.length + Number(power)
  if (/[1-9]/.test(digits.slice(point))) return undefined
  return BigInt(digits.slice(0, point).padEnd(point, '0'))
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
