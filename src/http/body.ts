/**
 * The body of a request: what the header says about it, how much memory a caller's bodies may take
 * while they arrive, and how they are read.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { MIMEType } from 'node:util'
import type { TObject } from '@sinclair/typebox'
import type { FastifyInstance, preParsingHookHandler } from 'fastify'
import { Failure } from '../failures.ts'
import { Shares } from '../shares.ts'
import { createJsonReader, decodeJson, jsonType } from './json.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The JSON text of the body, if the request has an Idempotency-Key; otherwise empty. */
    bodyText: string
  }
}

/**
 * How many bytes a chunk takes in memory besides its content. Without this, a body in chunks of one
 * byte could take a hundred times the memory that is counted for it.
 */
const chunkBytes = 256

/**
 * Bodies up to this size are not counted, which keeps creates cheap. In chunks of one byte, such a
 * body takes 32 KiB.
 */
const smallBytes = 128
const tooManyBodies = 'too many request bodies are being received'

/** Checks what the header says about the body. Returns the first failure, if any. */
export function checkBodyHeader(
  headers: IncomingHttpHeaders,
  limitBytes: number
): Failure | undefined {
  const { 'content-type': type = '', 'content-length': length = '0' } = headers
  if (length === '0' && headers['transfer-encoding'] === undefined)
    return new Failure('MalformedBody', { message: 'a body is required' })
  const typeFailure = type === jsonType ? undefined : checkType(type)
  if (typeFailure) return typeFailure
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity')
    return new Failure('UnsupportedMediaType', { message: 'the content encoding is not supported' })
  return Number(length) > limitBytes ? new Failure('BodyTooLarge') : undefined
}

/**
 * Checks that a media type is JSON in UTF-8 (RFC 8259, section 8.1). Returns the failure if it is
 * not.
 */
function checkType(type: string): Failure | undefined {
  try {
    const { essence, params } = new MIMEType(type)
    if (essence !== jsonType) return new Failure('UnsupportedMediaType')
    const isUtf8 = /^utf-8$/i.test(params.get('charset') ?? 'utf-8')
    return isUtf8
      ? undefined
      : new Failure('UnsupportedMediaType', { message: 'the charset must be UTF-8' })
  } catch {
    return new Failure('UnsupportedMediaType')
  }
}

/**
 * Makes the application read whole bodies as JSON. Members of the schema with the format int64 are
 * exact. Returns the hook for the routes that have a body. `memoryBytes` is shared by all bodies
 * that are arriving; `limitBytes` is for one body.
 */
export function readBodies(
  app: FastifyInstance,
  schema: TObject,
  memoryBytes: number,
  limitBytes: number
) {
  const bodies = new Shares(memoryBytes)
  const read = createJsonReader(schema)
  app.decorateRequest('bodyText', '')
  app.removeAllContentTypeParsers()
  const options = { parseAs: 'buffer', bodyLimit: limitBytes } as const
  app.addContentTypeParser<Buffer>(jsonType, options, (request, body, done) => {
    const text = decodeJson(body)
    if (request.headers['idempotency-key'] !== undefined) request.bodyText = text
    done(null, read(text))
  })
  const holdBody: preParsingHookHandler = ({ raw, caller }, _reply, _payload, done) => {
    const announced = Number(raw.headers['content-length'])
    if (announced <= smallBytes) return done()
    let arrived = 0
    let held = 0
    const onData = ({ length }: Buffer) => {
      arrived += length
      // Fastify refuses this body, and drops the rest of it.
      if (arrived > limitBytes) return release()
      // A body that arrives in one piece is parsed at once, so it is never held.
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
