/** Reading a request's body: into one buffer, as long as there is room for it, then as JSON with an exact id. */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { releaseHead } from './head.ts'
import { createJsonReader, NestedTooDeeply } from './json.ts'
import type { Shares } from './shares.ts'

/** The message for a client whose body finds no room. */
export const tooManyBodies = { message: 'too many bodies are arriving' }

const leastBytes = 1_024
const noTrailers = { trailers: {}, rawTrailers: [] }

type Read = (body: Buffer) => unknown
type Done = (error: Error | null, body?: unknown) => void

/** Reads one body into one buffer: of the announced length, or, for a chunked body, doubled when it is full. */
function readBody(request: FastifyRequest, bodies: Shares, limitBytes: number, read: Read, done: Done) {
  const { raw, connection, caller } = request
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
    const bytes = Number(announced ?? Math.min(limitBytes, Math.max(leastBytes, 2 * total)))
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
    Object.assign(raw, noTrailers)
    try {
      done(null, parse(buffer.subarray(0, length), read))
    } catch (error) {
      done(error as Failure)
    }
  }

  function finish() {
    raw.off('data', add).off('end', end)
    connection?.endBody(fail)
    release()
  }

  function release() {
    bodies.release(caller, held)
    held = 0
  }

  connection?.startBody(fail)
  raw.on('data', add).on('end', end)
}

/** Returns what a body holds. Throws a Failure. */
function parse(body: Buffer, read: Read): unknown {
  if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
  try {
    return read(body)
  } catch (error) {
    throw new Failure('MalformedBody', error instanceof NestedTooDeeply ? { message: error.message } : {})
  }
}

/** Returns the names of a schema's properties that are exact integers. */
export const namesOfIntegers = ({ properties }: TObject) =>
  Object.keys(properties).filter((name) => properties[name]?.int64)

/**
 * Returns a content type parser for JSON of a schema, whose members with `int64` are exact. `bodies`: bytes that may be
 * arriving at the same time, for each caller.
 */
export function createBodyParser(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(namesOfIntegers(schema))
  return (request: FastifyRequest, _: unknown, done: Done) => {
    readBody(request, bodies, limitBytes, read, done)
    releaseHead(request)
  }
}
