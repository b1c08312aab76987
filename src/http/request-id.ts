/** What a request is called in the logs of all who handle it. */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

const requestId = /^[A-Za-z0-9._-]{1,128}$/
/** W3C Trace Context, section 3.2: version 00; a trace id or a parent id of zeros alone is none. */
const traceparent = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** Gives the X-Request-Id that a request came with, 1 to 128 of `[A-Za-z0-9._-]`, or else makes one, a UUID. */
export function identifyRequest(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && requestId.test(given) ? given : randomUUID()
}

/** Gives the trace id, 32 hex digits, of a request's `traceparent`, or undefined where there is no valid one. */
export function findTraceId({ traceparent: given }: IncomingHttpHeaders): string | undefined {
  return typeof given === 'string' ? traceparent.exec(given)?.[1] : undefined
}
