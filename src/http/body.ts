/** A request's body: what its header says about it, and its caller's share of the memory for bodies. */
import type { IncomingHttpHeaders } from 'node:http'
import { MIMEType } from 'node:util'
import type { TObject } from '@sinclair/typebox'
import type { FastifyInstance, preParsingHookHandler } from 'fastify'
import { Failure } from '../failures.ts'
import { Shares } from '../shares.ts'
import { createJsonReader } from './json.ts'

const json = 'application/json'
/** What a chunk takes besides its bytes. Without it, a body in chunks of one byte would take a hundred times its share. */
const chunkBytes = 256

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
    let length = 0
    let held = 0
    function onData(chunk: Buffer) {
      length += chunk.length
      // Fastify refuses it, and drops the rest.
      if (length > limitBytes) return release()
      // A body that comes in one piece is parsed at once, and so never held. The length of a chunked one is not known.
      if (chunk.length === announced) return
      const bytes = chunk.length + chunkBytes
      if (bodies.take(caller, bytes)) held += bytes
      else
        raw.emit(
          'error',
          new Failure('Overloaded', { message: 'too many request bodies are being received' })
        )
    }
    function release() {
      raw.off('data', onData).off('end', release).off('error', release)
      bodies.release(caller, held)
    }
    raw.on('data', onData).on('end', release).on('error', release)
    done()
  }
  return holdBody
}
