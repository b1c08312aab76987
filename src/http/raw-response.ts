/** Responses to requests that Node's parser refuses, which Fastify never sees: the failure, and the whole response as text. */
import { Failure, type FailureName, toResponse } from '../failures.ts'

/**
 * The header fields of every response, besides its request's id: it must not be cached, has the type that it claims, and
 * may load and run nothing if a browser shows it as a page. Fields about TLS are the balancer's.
 */
export const responseHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff'
}

/** An error of Node's parser. */
export type ParserError = NodeJS.ErrnoException & { reason?: string }

/** The parser's error codes that have a failure of their own. All others mean a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}
/** The reason of an error whose code is HPE_INVALID_VERSION as well, although the line end is at fault, such as a bare LF. */
const noLineEnd = 'Expected CRLF after version'

/** Returns the failure for an error of Node's parser. */
export function toParserFailure({ code = '', reason }: ParserError): Failure {
  if (reason !== noLineEnd) return new Failure(byParserCode[code] ?? 'MalformedRequest')
  const message = 'the request line must end with the HTTP version and CRLF'
  return new Failure('MalformedRequest', { message })
}

/** Returns the whole response to a request that Fastify does not see (RFC 9112, section 4). */
export function formatResponse(failure: Failure, requestId: string): string {
  const { status, headers, body } = toResponse(failure)
  const fields = {
    'x-request-id': requestId,
    ...responseHeaders,
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    date: new Date().toUTCString(),
    connection: 'close'
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Bad Request\r\n${lines.join('')}\r\n${body}`
}
