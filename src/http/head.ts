/** A request's header: the rules that neither Node nor Fastify enforces, and by what logs and traces know the request. */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Failure } from '../failures.ts'

/** Fields that may occur once. Node would keep the first of most of them, and ignore the others without a word. */
const singletons = ['authorization', 'content-encoding', 'content-type', 'host', 'idempotency-key']

/** How many header fields a request may have: the default of Apache, Envoy and HAProxy. Short ones take ten times their bytes. */
export const maximumFields = 100

/** A name or an address, and perhaps a port: RFC 3986, section 3.2, without user information. */
const hostForm = /^(\[[0-9a-f:.]+\]|[a-z0-9._~%!$&'()*+,;=-]*)(:\d*)?$/i

/** Returns the first failure of a request's header, whatever its route. */
export function checkHead(request: IncomingMessage): Failure | undefined {
  const { rawHeaders, headers, httpVersion } = request
  // Node's parser accepts 0.9 and 2.0, too.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return new Failure('VersionNotSupported')
  if (rawHeaders.length > 2 * maximumFields)
    return new Failure('HeadersTooLarge', {
      message: `the request has more than ${maximumFields} header fields`
    })
  // Fewer names than fields: `headers` has each name once.
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

/** Returns the failure of a request whose end, and so anything after it, cannot be trusted (RFC 9112, section 6.1). */
export function checkCoding({ headers, httpVersion }: IncomingMessage): Failure | undefined {
  const { 'transfer-encoding': coding } = headers
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return malformed('HTTP/1.0 does not define Transfer-Encoding')
  return coding.toLowerCase() === 'chunked' ? undefined : new Failure('TransferCodingNotSupported')
}

/** Returns whether a client may wait for 100 (Continue) before it sends the body. HTTP/1.0 does not define it (RFC 9110, 10.1.1). */
export const awaitsContinue = ({
  headers,
  httpVersion
}: Pick<IncomingMessage, 'headers' | 'httpVersion'>) => !!headers.expect && httpVersion === '1.1'

/** A string in quotes, in which only quotes and backslashes are escaped (RFC 9651, section 3.3.3). */
const quotedKey = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"$/
/** Many clients send a key without quotes: visible ASCII, without commas, since these separate repeated fields. */
const bareKey = /^[\x21\x23-\x2b\x2d-\x7e]+$/

/** Reads an Idempotency-Key (IETF draft of this name), with quotes or without; undefined without one. Throws a Failure. */
export function parseIdempotencyKey(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const key = quotedKey.exec(value)?.[1]?.replace(/\\(.)/g, '$1') ?? bareKey.exec(value)?.[0] ?? ''
  if (key === '' || key.length > 255) throw new Failure('MalformedKey')
  return key
}

const malformed = (message: string) => new Failure('MalformedRequest', { message })

const requestIdForm = /^[A-Za-z0-9._-]{1,128}$/
/** Addresses, separated by commas, with ports and brackets: the log gets nothing else that a client may have sent in this field. */
const addressesForm = /^[\da-f.:, [\]]{1,200}$/i
/** W3C Trace Context, section 3.2: version 00; a trace id or a parent id of zeros is invalid. */
const traceparentForm = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

const match = (pattern: RegExp, given: unknown) =>
  typeof given === 'string' ? pattern.exec(given) : null

/** Returns the request's id, shared by all logs: its X-Request-Id, 1 to 128 of `[A-Za-z0-9._-]`, or else a new UUID. */
export const identifyRequest = (headers: IncomingHttpHeaders): string =>
  match(requestIdForm, headers['x-request-id'])?.[0] ?? randomUUID()

/** Returns the trace id, 32 hex digits, of a request's `traceparent`, or undefined if there is no valid one. */
export const findTraceId = (headers: IncomingHttpHeaders) =>
  match(traceparentForm, headers.traceparent)?.[1]

/** Returns the `X-Forwarded-For` of a request, or undefined if there is none, it is long, or it has more than addresses. */
export const findForwardedFor = (headers: IncomingHttpHeaders) =>
  match(addressesForm, headers['x-forwarded-for'])?.[0]
