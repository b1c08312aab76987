/** ops/haproxy/errors: the balancer's own responses, which keep the service's contract. */
import { catalogue, type Entry, type FailureName } from '../../src/failures/catalogue.ts'
import { responseHeaders } from '../../src/shared/response-headers.ts'

/** By the status that HAProxy would send: the failure, and its message where the balancer knows more or less than the service. */
const responses: [status: number, name: FailureName, message?: string][] = [
  [400, 'MalformedRequest'],
  [404, 'NotFound'],
  [408, 'RequestTimeout'],
  [413, 'BodyTooLarge'],
  [429, 'RateLimited', 'too many requests; this request stored nothing; retry later'],
  [431, 'HeadersTooLarge'],
  [500, 'Internal'],
  [501, 'TransferCodingNotSupported', 'the balancer does not support this request'],
  [
    502,
    'OutcomeUnknown',
    'the service did not respond: the plant may have been stored; repeat the same request'
  ],
  [503, 'Unavailable', 'the service cannot be reached; this request stored nothing; retry later']
]

function writeResponse(name: FailureName, message?: string): string {
  const { error, outcome, ...entry }: Entry = catalogue[name]
  const body = JSON.stringify({ error, message: message ?? entry.message })
  const fields = {
    'content-type': 'application/json',
    'error-name': name,
    ...(outcome && { 'write-outcome': outcome }),
    'content-length': Buffer.byteLength(body),
    ...responseHeaders,
    ...((error === 429 || error === 503) && { 'retry-after': 1 }),
    connection: 'close'
  }
  const lines = Object.entries(fields).map((field) => field.join(': '))
  return ['HTTP/1.1 400 Bad Request', ...lines, '', body].join('\r\n')
}

/** Returns the response of each file by its path. */
export const writeErrorFiles = () =>
  responses.map(
    ([status, name, message]) => [`ops/haproxy/errors/${status}.http`, writeResponse(name, message)] as const
  )
