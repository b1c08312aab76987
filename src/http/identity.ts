/** What logs and traces know a request by, as its header says. */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

const requestId = /^[A-Za-z0-9._-]{1,128}$/
/** Addresses, separated by commas, with ports and brackets: the log gets nothing else that a client may have sent in this field. */
const addresses = /^[\da-f.:, [\]]{1,200}$/i
/** W3C Trace Context, section 3.2: version 00; a trace id or a parent id of zeros is invalid. */
const traceparent = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

const match = (pattern: RegExp, given: unknown) => (typeof given === 'string' ? pattern.exec(given) : null)

/** Returns the request's id, shared by all logs: its X-Request-Id, 1 to 128 of `[A-Za-z0-9._-]`, or else a new UUID. */
export const identifyRequest = (headers: IncomingHttpHeaders): string =>
  match(requestId, headers['x-request-id'])?.[0] ?? randomUUID()

/** Returns the trace id, 32 hex digits, of a request's `traceparent`, or undefined if there is no valid one. */
export const findTraceId = (headers: IncomingHttpHeaders) => match(traceparent, headers.traceparent)?.[1]

/** Returns the `X-Forwarded-For` of a request, or undefined if there is none, it is long, or it has more than addresses. */
export const findForwardedFor = (headers: IncomingHttpHeaders) =>
  match(addresses, headers['x-forwarded-for'])?.[0]
