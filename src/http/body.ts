/** Reads a request's body whole, within its caller's share of the memory for bodies, and parses it. */
import { isUtf8 } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { MIMEType } from 'node:util'
import type { TObject } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures.ts'
import type { Shares } from '../shares.ts'
import { createJsonReader } from './json.ts'

const json = 'application/json'
/** What a chunk takes besides its bytes. Without it, a body in chunks of one byte would take a hundred times its share. */
const chunkBytes = 256

const malformed = (message?: string) => new Failure('MalformedBody', message ? { message } : {})
const overBudget = () => new Failure('Overloaded', { message: 'too many request bodies are being received' })

/** Returns the first failure of what a request's header says about its body. */
export function checkBodyHeader(headers: IncomingHttpHeaders, limitBytes: number): Failure | undefined {
  const { 'content-type': type = '', 'content-length': length = '0' } = headers
  if (length === '0' && headers['transfer-encoding'] === undefined) return malformed('a body is required')
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

type Done = (error: Error | null, body?: unknown) => void

/**
 * Returns a function that reads a request's body: JSON of a schema, whose members of format int64 are exact. `bodies` is the
 * memory for all bodies that are arriving at the same time, `limitBytes` the most of one body.
 */
export function createBodyReader(schema: TObject, bodies: Shares, limitBytes: number) {
  const read = createJsonReader(schema)
  return ({ raw, caller, connection }: FastifyRequest, _payload: unknown, done: Done) => {
    const announced = Number(raw.headers['content-length'])
    const chunks: Buffer[] = []
    let length = 0
    let held = 0

    function onData(chunk: Buffer) {
      length += chunk.length
      if (length > limitBytes) return end(new Failure('BodyTooLarge'))
      // A body that comes in one piece is parsed at once, and so never held. The length of a chunked one is not known.
      if (chunk.length !== announced) {
        const bytes = chunk.length + chunkBytes
        if (!bodies.take(caller, bytes)) return end(overBudget())
        held += bytes
      }
      chunks.push(chunk)
    }

    function onEnd() {
      // From now on, `close` does not mean that the client has gone.
      raw.off('close', onClose)
      const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length)
      if (!isUtf8(bytes)) return end(malformed('the body is not valid UTF-8'))
      let value: unknown
      try {
        value = read(bytes)
      } catch (error) {
        return end(error instanceof Failure ? error : malformed())
      }
      end(null, value)
    }

    const onClose = () => end(new Failure('MalformedRequest'))

    function end(error: Failure | null, value?: unknown) {
      raw.off('data', onData).off('end', onEnd).off('close', onClose).off('cut off', end)
      bodies.release(caller, held)
      done(error, value)
    }

    const failure = connection?.failureOf(raw)
    if (failure) return done(failure)
    raw.on('data', onData).on('end', onEnd).on('close', onClose).on('cut off', end)
  }
}
