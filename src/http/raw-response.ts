/** Failures below Fastify: a connection whose bytes are no request, or do not arrive. */
import type { Socket } from 'node:net'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure, toResponse } from '../failures/failure.ts'
import type { Connection } from './connection.ts'
import { responseHeaders } from './response-headers.ts'

/** Node's error codes that have a failure of their own; all others of its parser are a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}

/** Gives the failure for an error of Node's HTTP parser or of its time-outs. */
export function toProtocolFailure({ code = '' }: NodeJS.ErrnoException): Failure {
  return new Failure(byParserCode[code] ?? 'MalformedRequest')
}

/**
 * Ends a connection that cannot be read on. Requests that came in whole get their responses first, in their order;
 * then the one that did not gets the failure from Fastify. Where none has begun, the failure is written as it stands,
 * with this request id, and `onWritten` is called.
 */
export function writeRawResponse(
  socket: Socket,
  connection: Connection,
  failure: Failure,
  requestId: string,
  onWritten: () => void
): void {
  const { pendingResponses, newest } = connection
  const isIncomplete = newest?.complete === false
  connection.isOver = true
  connection.owesFailure = !isIncomplete
  connection.onSettled = () => {
    if (connection.owesFailure && socket.writable) {
      socket.write(render(failure, requestId))
      onWritten()
    }
    connection.end()
  }
  if (isIncomplete) {
    connection.newestFailure = failure
    // Wakes whoever reads the body; who has not begun to read finds the mark.
    newest.emit('error', failure)
  }
  if (pendingResponses.size === 0) connection.onSettled()
}

/** Writes a response out (RFC 9112, section 4). */
function render(failure: Failure, requestId: string): string {
  const { status, headers, body } = toResponse(failure)
  const fields = {
    ...responseHeaders(requestId),
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    date: new Date().toUTCString(),
    connection: 'close'
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Bad Request\r\n${lines.join('')}\r\n${body}`
}
