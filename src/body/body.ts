/** Reading a request's body into one buffer, as long as there is room. */
import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'
import type { Shares } from '../shared/shares.ts'
import { createJsonReader, namesOfIntegers } from './json.ts'
import { Turns } from './turns.ts'

const noRoom = () => new Failure('Overloaded', { message: 'too many request bodies are being received' })

/** Returns the failure of a request whose body would find no room, as long as its header says. */
export const checkRoom = (headers: IncomingHttpHeaders, bodies: Shares, caller: string) =>
  bodies.fits(caller, Number(headers['content-length'] ?? 1)) ? undefined : noRoom()

/** Parsing a megabyte of JSON takes some milliseconds, so bodies from this length on are parsed in turns of their own. */
const largeBytes = 65_536

type Done = (error: Error | null, body?: unknown) => void

/** A body's bytes, in one buffer that counts in the caller's share. */
class Buffered {
  readonly #bodies: Shares
  readonly #caller: string
  readonly #announced: number | undefined
  readonly #limitBytes: number
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0
  /** What counts in the share. */
  #held = 0

  /** The buffer has the announced length, or is doubled when it is full, up to `limitBytes`. */
  constructor(bodies: Shares, caller: string, announced: string | undefined, limitBytes: number) {
    this.#bodies = bodies
    this.#caller = caller
    this.#announced = announced === undefined ? undefined : Number(announced)
    this.#limitBytes = limitBytes
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Adds a chunk. Returns the failure of a body that is too long, or finds no room. */
  add(chunk: Buffer): Failure | undefined {
    const total = this.#length + chunk.length
    if (total > this.#limitBytes) return new Failure('BodyTooLarge')
    // A body that comes in one piece is parsed in this turn of the event loop, and needs no copy.
    if (this.#length === 0 && total === this.#announced) this.#buffer = chunk
    else if (this.#hasRoom(total)) this.#buffer.set(chunk, this.#length)
    else return noRoom()
    this.#length = total
    return undefined
  }

  /** Makes the buffer large enough, if there is room. */
  #hasRoom(total: number): boolean {
    if (total <= this.#buffer.length) return true
    const bytes = this.#announced ?? Math.min(this.#limitBytes, Math.max(1_024, 2 * total))
    // The old buffer does not count: both exist only during the copy, so for one body at a time.
    this.release()
    if (!this.#bodies.take(this.#caller, bytes)) return false
    this.#held = bytes
    const larger = Buffer.allocUnsafeSlow(bytes)
    larger.set(this.#buffer)
    this.#buffer = larger
    return true
  }

  /** Gives the caller's share back. */
  release(): void {
    this.#bodies.release(this.#caller, this.#held)
    this.#held = 0
  }
}

/**
 * Returns a function that reads a request's body, JSON of a schema, whose members with `int64` are exact. `bodies` is the budget
 * of bytes that may be arriving at the same time, `limitBytes` the most of one body.
 */
export function createBodyReader(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(namesOfIntegers(schema))
  const turns = new Turns()
  return (request: FastifyRequest, done: Done) => {
    const { raw, caller, connection } = request
    const body = new Buffered(bodies, caller, raw.headers['content-length'], limitBytes)

    function fail(failure: Failure) {
      finish()
      done(failure)
    }

    function add(chunk: Buffer) {
      const failure = body.add(chunk)
      if (failure) fail(failure)
    }

    function end() {
      // From now on it only means that the stream has ended.
      raw.off('close', leave)
      raw.trailers = {}
      raw.rawTrailers = []
      if (body.bytes.length < largeBytes) parse()
      else turns.add(parse)
    }

    function parse() {
      const { bytes } = body
      finish()
      if (!isUtf8(bytes))
        return done(new Failure('MalformedBody', { message: 'the body is not valid UTF-8' }))
      try {
        done(null, read(bytes))
      } catch (error) {
        done(error instanceof Failure ? error : new Failure('MalformedBody'))
      }
    }

    function finish() {
      raw.off('data', add).off('end', end).off('close', leave)
      connection?.forgetBody(raw)
      turns.delete(parse)
      body.release()
    }

    /** The client has gone. */
    function leave() {
      fail(new Failure('MalformedRequest'))
    }

    connection?.expectBody(raw, fail)
    raw.on('data', add).on('end', end).on('close', leave)
  }
}
