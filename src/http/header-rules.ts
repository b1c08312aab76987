/** The rules for a request's header that neither Node nor Fastify keeps. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Failure } from '../failures/failure.ts'

/** Fields that a request has once at the most; of most of them Node would silently keep the first. */
const singletons = ['authorization', 'content-encoding', 'content-type', 'host', 'idempotency-key']
const bits = new Map(singletons.map((name, index) => [name, 1 << index]))

const json = 'application/json'

/** RFC 3986, section 3.2, without user information: a name or an address, and a port. */
const host = /^(\[[0-9a-f:.]+\]|[a-z0-9._~%!$&'()*+,;=-]*)(:\d*)?$/i

/**
 * Gives the failure of a request's header as a whole, if it has one: the version (RFC 9112, section 2.3), repeated
 * fields (RFC 9110, section 5.3), Host (RFC 9112, section 3.2), Transfer-Encoding (RFC 9112, section 6.1), Expect
 * (RFC 9110, section 10.1.1).
 */
export function checkHead({ rawHeaders, headers, httpVersion }: IncomingMessage): Failure | undefined {
  // Node's parser takes 0.9 and 2.0 too.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new Failure('VersionNotSupported')
  const repeated = findRepeated(rawHeaders)
  if (repeated !== undefined) return malformed(`the header field ${repeated} is repeated`)
  if (headers.host === undefined ? httpVersion !== '1.0' : !host.test(headers.host)) {
    return malformed('the header field host is missing or malformed')
  }
  if (isFramingFaulty({ headers, httpVersion })) return malformed('transfer-encoding is not of HTTP/1.0')
  const { 'transfer-encoding': coding = 'chunked', expect = '100-continue' } = headers
  if (coding.toLowerCase() !== 'chunked') return new Failure('TransferCodingNotSupported')
  if (expect.toLowerCase() !== '100-continue') return new Failure('ExpectationFailed')
  return undefined
}

/** Tells whether the end of a request cannot be trusted, and so nothing behind it (RFC 9112, section 6.1). */
export function isFramingFaulty({ headers, httpVersion }: Pick<IncomingMessage, 'headers' | 'httpVersion'>) {
  return httpVersion === '1.0' && headers['transfer-encoding'] !== undefined
}

/** Tells whether a client may wait for 100 before it sends its body; of HTTP/1.0 that must be ignored. */
export function awaits100({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
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

/**
 * Gives the failure of what a request's header says of its body, if it has one: whether there is one, its type, its
 * charset (RFC 8259, section 8.1: UTF-8), its content coding, its length (`limitBytes`).
 */
export function checkBodyHead(headers: IncomingHttpHeaders, limitBytes: number): Failure | undefined {
  const {
    'content-type': type,
    'content-encoding': encoding = 'identity',
    'content-length': length = '0'
  } = headers
  const isEmpty = length === '0' && headers['transfer-encoding'] === undefined
  if (isEmpty) return new Failure('MalformedBody', { message: 'a body is required' })
  const typeFailure = type === json ? undefined : checkType(type ?? '')
  if (typeFailure) return typeFailure
  if (encoding.toLowerCase() !== 'identity') {
    return new Failure('UnsupportedMediaType', { message: 'the content encoding is not supported' })
  }
  return Number(length) > limitBytes ? new Failure('BodyTooLarge') : undefined
}

/** Gives the failure of a media type that is not JSON in UTF-8. */
function checkType(type: string): Failure | undefined {
  const [essence, ...parameters] = type.split(';').map((part) => part.trim().toLowerCase())
  if (essence !== json) return new Failure('UnsupportedMediaType')
  const isOther = (parameter: string) =>
    parameter.startsWith('charset') && !/^charset="?utf-8"?$/.test(parameter)
  if (!parameters.some(isOther)) return undefined
  return new Failure('UnsupportedMediaType', { message: 'the charset must be UTF-8' })
}

const malformed = (message: string) => new Failure('MalformedRequest', { message })
