/** A request's body: what its header says about it, its caller's share of the memory, and how it is read. */
import type { IncomingHttpHeaders } from 'node:http'
import { MIMEType } from 'node:util'
import type { TObject } from '@sinclair/typebox'
import type { FastifyInstance, preParsingHookHandler } from 'fastify'
import { Failure } from '../failures.ts'
import { Shares } from '../shares.ts'
import { createJsonReader, decodeJson, jsonType } from './json.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The JSON text of the body of a request with an Idempotency-Key; otherwise empty. */
    bodyText: string
  }
}

/** What a chunk takes besides its bytes. Without it, a body in chunks of one byte would take a hundred times its share. */
const chunkBytes = 256

/** A body of so few bytes is not counted, to keep creates cheap. In chunks of one byte it takes 32 KiB. */
const smallBytes = 128
const tooManyBodies = 'too many request bodies are being received'

/** Returns the first failure of what a request's header says about its body. */
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

/** Returns the failure of a media type that is not JSON in UTF-8 (RFC 8259, section 8.1). */
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
 * Makes the application read bodies whole, as JSON of a schema, whose members of format int64 are exact. Returns the hook of
 * the routes that have one. `memoryBytes` are for all bodies that are arriving at the same time, `limitBytes` for one body.
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
