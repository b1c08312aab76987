/** What a request's header says about its body: where it ends, and whether the client waits before it sends it. */
import type { IncomingMessage } from 'node:http'

const endsChunked = /(?:^|[,\s])chunked$/i

/** Returns whether the end of a request, and so anything after it, cannot be trusted (RFC 9112, section 6.1). */
export function isFramingFaulty({ headers, httpVersion }: Pick<IncomingMessage, 'headers' | 'httpVersion'>) {
  const { 'transfer-encoding': coding } = headers
  return coding !== undefined && (httpVersion === '1.0' || !endsChunked.test(coding))
}

/** Returns whether a client may wait for a 100 before it sends its body. HTTP/1.0 has no 100 (RFC 9110, section 10.1.1). */
export function awaits100({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
}
