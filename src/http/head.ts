/**
 * The header of a request: the rules that neither Node nor Fastify enforces, and the ids and
 * addresses that go into logs and traces.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Failure } from '../failures.ts'

/**
 * Header fields that may occur only once. For most of them, Node would silently keep the first and
 * drop the others.
 */
const singletons = ['authorization', 'content-encoding', 'content-type', 'host', 'idempotency-key']

/**
 * How many header fields a request may have. It is the default of Apache, Envoy and HAProxy. A
 * short field takes ten times its bytes in memory.
 */
export const maximumFields = 100

/**
 * The form of the header field host: a name or an address, perhaps with a port (RFC 3986, section
 * 3.2, without user information).
 */
const hostForm = /^(\[[0-9a-f:.]+\]|[a-z0-9._~%!$&'()*+,;=-]*)(:\d*)?$/i

/**
 * Checks what every request's header must fulfil, whatever its route is. Returns the first failure,
 * if any.
 */
export function checkHead(request: IncomingMessage): Failure | undefined {
  const { rawHeaders, headers, httpVersion } = request
  // Node's parser also accepts HTTP/0.9 and HTTP/2.0.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new Failure('VersionNotSupported')
  if (rawHeaders.length > 2 * maximumFields)
    return new Failure('HeadersTooLarge', {
      message: `the request has more than ${maximumFields} header fields`
    })
  // `headers` has each name once, so a field is repeated if there are fewer names than fields.
  const isRepeated = 2 * Object.keys(headers).length < rawHeaders.length
  const repeated =
    isRepeated && singletons.find((name) => Number(request.headersDistinct[name]?.length) > 1)
  if (repeated) return malformed(`the header field ${repeated} is repeated`)
  if (headers.host === undefined ? httpVersion !== '1.0' : !hostForm.test(headers.host))
    return malformed('the header field host is missing or malformed')
  const { expect = '100-continue' } = headers
  const isExpected = expect.toLowerCase() === '100-continue'
  return checkCoding(request) ?? (isExpected ? undefined : new Failure('ExpectationFailed'))
}

/**
 * Checks the transfer coding. With a bad one, the end of the request cannot be trusted, and so
 * neither can anything after it (RFC 9112, section 6.1). Returns the failure, if any.
 */
export function checkCoding({ headers, httpVersion }: IncomingMessage): Failure | undefined {
  const { 'transfer-encoding': coding } = headers
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return malformed('HTTP/1.0 does not define Transfer-Encoding')
  return coding.toLowerCase() === 'chunked' ? undefined : new Failure('TransferCodingNotSupported')
}

/**
 * Returns whether a client may wait for 100 (Continue) before it sends the body. HTTP/1.0 does not
 * have this (RFC 9110, section 10.1.1).
 */
export const awaitsContinue = ({
  headers,
  httpVersion
}: Pick<IncomingMessage, 'headers' | 'httpVersion'>) => !!headers.expect && httpVersion === '1.1'

/** The form of a quoted key: only quotes and backslashes are escaped (RFC 9651, section 3.3.3). */
const quotedKey = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/
/**
 * The form of a key without quotes, which many clients send: visible ASCII characters. Commas are
 * left out, because they separate repeated fields.
 */
const bareKey = /^[\x21\x23-\x2b\x2d-\x7e]+$/

/**
 * Reads an Idempotency-Key with or without quotes (the IETF draft of this name). Returns undefined
 * if there is none. Throws a Failure if it is malformed.
 */
export function parseIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const key = quotedKey.exec(value)?.[1]?.replace(/\\(.)/g, '$1') ?? bareKey.exec(value)?.[0] ?? ''
  if (key === '' || key.length > 255) throw new Failure('MalformedKey')
  return key
}

const malformed = (message: string) => new Failure('MalformedRequest', { message })

const requestIdForm = /^[A-Za-z0-9._-]{1,128}$/
/**
 * The form of X-Forwarded-For: addresses with ports and brackets, separated by commas. A client can
 * send anything in this field, and only this form gets into the log.
 */
const addressesForm = /^[\da-f.:, [\]]{1,200}$/i
/**
 * The form of traceparent in version 00 (W3C Trace Context, section 3.2). A trace id or a parent id
 * of zeros is invalid.
 */
const traceparentForm = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

const match = (pattern: RegExp, given: unknown) =>
  typeof given === 'string' ? pattern.exec(given) : null

/**
 * Returns the id of a request, which all logs share: its X-Request-Id if that is 1 to 128 of
 * `[A-Za-z0-9._-]`, or else a new UUID.
 */
export const identifyRequest = (headers: IncomingHttpHeaders): string =>
  match(requestIdForm, headers['x-request-id'])?.[0] ?? randomUUID()

/**
 * Returns the trace id of a request's `traceparent`, 32 hex digits; undefined if there is no valid
 * one.
 */
export const findTraceId = (headers: IncomingHttpHeaders) =>
  match(traceparentForm, headers.traceparent)?.[1]

/**
 * Returns the `X-Forwarded-For` of a request; undefined if there is none, or if it is too long or
 * has something other than addresses.
 */
export const findForwardedFor = (headers: IncomingHttpHeaders) =>
  match(addressesForm, headers['x-forwarded-for'])?.[0]
