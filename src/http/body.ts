/** Reading a request's body into one buffer, as long as there is room. */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'
import type { Shares } from '../shared/shares.ts'
import { releaseHead } from './head.ts'
import { createJsonReader, namesOfIntegers } from './json.ts'

/** The message for a client whose body finds no room. */
export const tooManyBodies = { message: 'too many bodies are arriving' }

/** Reading a megabyte of JSON takes some milliseconds, so bodies from this length on are read in turns of their own. */
const largeBytes = 65_536

type Done = (error: Error | null, body?: unknown) => void

/**
 * Returns a content type parser for JSON of a schema, whose members with `int64` are exact. It reads a body into one
 * buffer: of the announced length, or, for a chunked body, doubled when it is full. `bodies` is the budget of bytes
 * that may be arriving at the same time.
 */
export function createBodyParser(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(namesOfIntegers(schema))
  const largeBodies = createTurns()
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
      // From now on it only means that the stream has ended.
      raw.off('close', leave)
      raw.trailers = {}
      raw.rawTrailers = []
      if (length < largeBytes) parse()
      else largeBodies.add(parse)
    }

    function parse() {
      finish()
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
      connection?.expectBody(raw, undefined)
      largeBodies.delete(parse)
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

/**
 * Returns a set of callbacks that are called in the order in which they were added, one in each turn of the event loop.
 * Otherwise, many bodies that arrive together would hold up all other requests until the last one is read.
 */
function createTurns() {
  const waiting = new Set<() => void>()
  let isScheduled = false

  function schedule() {
    if (!isScheduled && waiting.size > 0) setImmediate(run)
    isScheduled = waiting.size > 0
  }

  function run() {
    isScheduled = false
    const [next] = waiting
    if (next) waiting.delete(next)
    schedule()
    next?.()
  }

  return {
    add(callback: () => void) {
      waiting.add(callback)
      schedule()
    },
    delete: (callback: () => void) => waiting.delete(callback)
  }
}
