/** A request's header: the rules that neither Node nor Fastify enforces, and how long it is held. */
import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { Failure } from '../failures/failure.ts'

/** Fields that may occur once. Of most of them, Node would silently keep the first. */
const singletons = ['authorization', 'content-encoding', 'content-type', 'host', 'idempotency-key']
const bits = new Map(singletons.map((name, index) => [name, 1 << index]))

/** The default of Apache, Envoy and HAProxy. A field can take ten times its bytes of memory. */
export const maximumFields = 100

/** RFC 3986, section 3.2, without user information: a name or an address, and a port. */
const host = /^(\[[0-9a-f:.]+\]|[a-z0-9._~%!$&'()*+,;=-]*)(:\d*)?$/i

/**
 * Returns the failure of a request's header as a whole, if it has one: the version (RFC 9112, section 2.3), too many or repeated
 * fields (RFC 9110, section 5.3), Host (RFC 9112, section 3.2), Transfer-Encoding (RFC 9112, section 6.1), Expect
 * (RFC 9110, section 10.1.1).
 */
export function checkHead({ rawHeaders, headers, httpVersion }: IncomingMessage): Failure | undefined {
  // Node's parser accepts 0.9 and 2.0, too.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new Failure('VersionNotSupported')
  if (rawHeaders.length > 2 * maximumFields) {
    return new Failure('HeadersTooLarge', {
      message: `the request has more than ${maximumFields} header fields`
    })
  }
  // Node keeps one name for all fields that have it.
  const isRepeated = 2 * Object.keys(headers).length < rawHeaders.length
  const repeated = isRepeated ? findRepeated(rawHeaders) : undefined
  if (repeated !== undefined) return malformed(`the header field ${repeated} is repeated`)
  if (headers.host === undefined ? httpVersion !== '1.0' : !host.test(headers.host)) {
    return malformed('the header field host is missing or malformed')
  }
  const { 'transfer-encoding': coding, expect = '100-continue' } = headers
  if (coding !== undefined && httpVersion === '1.0')
    return malformed('HTTP/1.0 does not define Transfer-Encoding')
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return new Failure('TransferCodingNotSupported')
  if (expect.toLowerCase() !== '100-continue') return new Failure('ExpectationFailed')
  return undefined
}

function findRepeated(rawHeaders: string[]): string | undefined {
  let seen = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] as string).toLowerCase()
    const bit = bits.get(name) ?? 0
    if (seen & bit) return name
    seen |= bit
  }
  return undefined
}

/** RFC 9651, section 3.3.3: a string in quotes, with only quotes and backslashes escaped. */
const quotedKey = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/
/** The form that many clients send: visible ASCII without quotes, and without commas, which separate repeated fields. */
const bareKey = /^[\x21\x23-\x2b\x2d-\x7e]+$/
const maximumKeyLength = 255

/**
 * Reads an Idempotency-Key, in quotes (IETF draft "The Idempotency-Key HTTP Header Field") or bare, which is the same key.
 * Returns undefined where there is none. Throws a Failure for an empty, malformed, repeated or too long one.
 */
export function parseIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const key = quotedKey.exec(value)?.[1]?.replace(/\\(.)/g, '$1') ?? bareKey.exec(value)?.[0] ?? ''
  if (key === '' || key.length > maximumKeyLength) throw new Failure('MalformedKey')
  return key
}

const noFields = Object.freeze({})
const noRawFields: string[] = []

/**
 * Drops the references to a request's header, path and query: up to 16 kB, which take several times as much memory.
 * Nothing needs them while its body arrives, its plant waits, or its response is not read.
 */
export function releaseHead(request: FastifyRequest): void {
  const raw: IncomingMessage & { originalUrl?: string } = request.raw
  raw.headers = noFields
  raw.rawHeaders = noRawFields
  raw.url = ''
  raw.originalUrl = ''
}

const malformed = (message: string) => new Failure('MalformedRequest', { message })
