/** Reads a request's body into one buffer, within the budget of all bodies. */
import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'
import type { Shares } from '../shared/shares.ts'
import { createJsonReader, namesOfIntegers } from './json.ts'
import { OnePerTurn } from './one-per-turn.ts'

const overBudget = () => new Failure('Overloaded', { message: 'too many request bodies are being received' })

/** Returns the failure of a body that exceeds the budget, judged by its Content-Length; a chunked body counts as one byte. */
export const checkBudget = (headers: IncomingHttpHeaders, bodies: Shares, caller: string) =>
  bodies.fits(caller, Number(headers['content-length'] ?? 1)) ? undefined : overBudget()

/** Parsing a megabyte of JSON takes some milliseconds, so bodies of at least this length are parsed in turns of their own. */
const largeBytes = 65_536

type Done = (error: Error | null, body?: unknown) => void

/** A body's bytes, in one buffer that counts in its caller's share of the budget. */
class BodyBuffer {
  readonly #bodies: Shares
  readonly #caller: string
  /** The Content-Length. */
  readonly #announcedBytes: number | undefined
  readonly #limitBytes: number
  #buffer: Buffer = Buffer.alloc(0)
  /** How many bytes of the buffer are used. */
  #length = 0
  /** How many bytes count in the share. */
  #heldBytes = 0

  constructor(bodies: Shares, caller: string, announced: string | undefined, limitBytes: number) {
    this.#bodies = bodies
    this.#caller = caller
    this.#announcedBytes = announced === undefined ? undefined : Number(announced)
    this.#limitBytes = limitBytes
  }

  /** The bytes that have been added. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Adds a chunk. Returns the failure of a body that is too long, or exceeds the budget. */
  add(chunk: Buffer): Failure | undefined {
    const total = this.#length + chunk.length
    if (total > this.#limitBytes) return new Failure('BodyTooLarge')
    // A body that comes in one piece is parsed in this turn of the event loop, and needs no copy.
    if (this.#length === 0 && total === this.#announcedBytes) this.#buffer = chunk
    else if (this.#grow(total)) this.#buffer.set(chunk, this.#length)
    else return overBudget()
    this.#length = total
    return undefined
  }

  /** Makes the buffer large enough: for the announced bytes, or twice those that are needed. Returns false beyond the budget. */
  #grow(total: number): boolean {
    if (total <= this.#buffer.length) return true
    const bytes = this.#announcedBytes ?? Math.min(this.#limitBytes, Math.max(1_024, 2 * total))
    // The old buffer does not count: both exist only during the copy, so for one body at a time.
    this.release()
    if (!this.#bodies.take(this.#caller, bytes)) return false
    this.#heldBytes = bytes
    const larger = Buffer.allocUnsafeSlow(bytes)
    larger.set(this.#buffer)
    this.#buffer = larger
    return true
  }

  /** Releases the share. */
  release(): void {
    this.#bodies.release(this.#caller, this.#heldBytes)
    this.#heldBytes = 0
  }
}

/**
 * Returns a function that reads a request's body: JSON of a schema, whose members with `int64` are exact. `bodies` is the budget
 * of all bodies that are arriving at the same time, `limitBytes` the most of one body.
 */
export function createBodyReader(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(namesOfIntegers(schema))
  const largeBodies = new OnePerTurn()
  return (request: FastifyRequest, done: Done) => {
    const { raw, caller, connection } = request
    const body = new BodyBuffer(bodies, caller, raw.headers['content-length'], limitBytes)

    function onData(chunk: Buffer) {
      const failure = body.add(chunk)
      if (failure) fail(failure)
    }

    function onEnd() {
      // From now on, `close` does not mean that the client has gone.
      raw.off('close', onClose)
      raw.trailers = {}
      raw.rawTrailers = []
      if (body.bytes.length < largeBytes) parse()
      else largeBodies.add(parse)
    }

    function onClose() {
      fail(new Failure('MalformedRequest'))
    }

    function parse() {
      const { bytes } = body
      stop()
      if (!isUtf8(bytes))
        return done(new Failure('MalformedBody', { message: 'the body is not valid UTF-8' }))
      try {
        done(null, read(bytes))
      } catch (error) {
        done(error instanceof Failure ? error : new Failure('MalformedBody'))
      }
    }

    function fail(failure: Failure) {
      stop()
      done(failure)
    }

    /** Reads no further, and releases what is held. */
    function stop() {
      raw.off('data', onData).off('end', onEnd).off('close', onClose)
      connection?.forgetBody(raw)
      largeBodies.delete(parse)
      body.release()
    }

    connection?.expectBody(raw, fail)
    raw.on('data', onData).on('end', onEnd).on('close', onClose)
  }
}
