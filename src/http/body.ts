/** Reading a request's body: into one buffer, as long as there is room for it, then as JSON with an exact id. */
import { isUtf8 } from 'node:buffer'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import type { BodyReader } from '../connections/connection.ts'
import { Failure } from '../failures/failure.ts'
import type { Shares } from '../shares.ts'
import { releaseHead } from './head.ts'
import { createJsonReader, NestedTooDeeply } from './json.ts'

/** The message for a client whose body finds no room. */
export const tooManyBodies = { message: 'too many bodies are arriving' }

const leastBytes = 1_024
const noTrailers = { trailers: {}, rawTrailers: [] }

type Done = (error: Error | null, body?: unknown) => void
type Read = (body: Buffer) => unknown

/** Reads one body into one buffer: of the announced length, or, for a chunked body, doubled when it is full. */
class Body implements BodyReader {
  readonly #request: FastifyRequest
  readonly #bodies: Shares
  readonly #limitBytes: number
  /** Content-Length; undefined for a chunked body. */
  readonly #announced: number | undefined
  readonly #read: Read
  readonly #done: Done
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0
  #held = 0

  constructor(request: FastifyRequest, bodies: Shares, limitBytes: number, read: Read, done: Done) {
    const { 'content-length': announced } = request.headers
    this.#request = request
    this.#bodies = bodies
    this.#limitBytes = limitBytes
    this.#announced = announced === undefined ? undefined : Number(announced)
    this.#read = read
    this.#done = done
    const { raw, connection } = request
    connection?.startBody(this)
    raw.on('data', this.#add).on('end', this.#end)
  }

  get hasBegun(): boolean {
    return this.#length > 0
  }

  fail(failure: Failure): void {
    this.#finish()
    this.#done(failure)
  }

  readonly #add = (chunk: Buffer) => {
    const length = this.#length + chunk.length
    if (length > this.#limitBytes) return this.fail(new Failure('BodyTooLarge'))
    // A body that comes in one piece is parsed in this turn of the event loop, and needs no copy.
    if (length === this.#announced && this.#length === 0) this.#buffer = chunk
    else if (this.#hasRoom(length)) this.#buffer.set(chunk, this.#length)
    else return this.fail(new Failure('Overloaded', tooManyBodies))
    this.#length = length
  }

  readonly #end = () => {
    const body = this.#buffer.subarray(0, this.#length)
    this.#finish()
    Object.assign(this.#request.raw, noTrailers)
    try {
      this.#done(null, parse(body, this.#read))
    } catch (error) {
      this.#done(error as Failure)
    }
  }

  /** Makes the buffer large enough, if there is room. */
  #hasRoom(length: number): boolean {
    if (length <= this.#buffer.length) return true
    const { caller } = this.#request
    const bytes = this.#announced ?? Math.min(this.#limitBytes, Math.max(leastBytes, 2 * length))
    // The old buffer does not count: both exist only during the copy, so for one body at a time.
    this.#bodies.release(caller, this.#held)
    this.#held = 0
    if (!this.#bodies.take(caller, bytes)) return false
    this.#held = bytes
    const larger = Buffer.allocUnsafeSlow(bytes)
    larger.set(this.#buffer)
    this.#buffer = larger
    return true
  }

  #finish() {
    const { raw, connection, caller } = this.#request
    raw.off('data', this.#add).off('end', this.#end)
    connection?.endBody(this)
    this.#bodies.release(caller, this.#held)
    this.#held = 0
  }
}

/** Returns what a body holds. Throws a Failure. */
function parse(body: Buffer, read: Read): unknown {
  if (!isUtf8(body)) throw new Failure('MalformedBody', { message: 'the body is not valid UTF-8' })
  try {
    return read(body)
  } catch (error) {
    if (error instanceof NestedTooDeeply) throw new Failure('MalformedBody', { message: error.message })
    throw new Failure('MalformedBody')
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
    new Body(request, bodies, limitBytes, read, done)
    releaseHead(request)
  }
}
