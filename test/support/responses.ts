/** The whole responses of the interface, as a client sees them: written down here once more, not read from the service. */

/** A response without the header fields of the transport. */
export interface Reply {
  status: number
  headers: Record<string, string>
  body: string
}

/** The header fields of every response; the request id is masked. */
export const everyResponse = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'content-type': 'application/json',
  'x-content-type-options': 'nosniff',
  'x-request-id': 'made'
}

const retry = { 'retry-after': '1' }
const none = { ...retry, 'write-outcome': 'none' }
const stored = '; this request stored nothing; retry later'

/** Every failure: its number, its message, and its own header fields. */
const failures = {
  MalformedRequest: [400, 'the request is malformed'],
  MalformedKey: [
    400,
    'Idempotency-Key must be 1 to 255 visible ASCII characters; quote it if it contains a comma, a quote or a space'
  ],
  MalformedBody: [400, 'the body is not valid JSON'],
  MissingToken: [
    401,
    'a bearer token is required',
    { 'www-authenticate': 'Bearer realm="plant-store"' }
  ],
  MalformedToken: [
    401,
    'the Authorization header is malformed',
    { 'www-authenticate': 'Bearer realm="plant-store", error="invalid_request"' }
  ],
  InvalidToken: [
    401,
    'the bearer token is not valid',
    { 'www-authenticate': 'Bearer realm="plant-store", error="invalid_token"' }
  ],
  UnacceptableCaller: [403, "the token's caller has a name that this store does not take"],
  NotFound: [404, 'no such path'],
  MethodNotAllowed: [405, 'this path does not support this method', { allow: 'POST' }],
  RequestTimeout: [408, 'the request took too long to arrive; send it again'],
  DuplicatePlant: [409, 'a plant with this id already exists'],
  BodyTooLarge: [413, 'the body is too large'],
  UnsupportedMediaType: [415, 'the content type must be application/json'],
  ExpectationFailed: [417, 'the only supported expectation is 100-continue'],
  InvalidPlant: [422, 'a value is not valid'],
  RefusedPlant: [422, 'the plant breaks a rule of this store'],
  ReusedKey: [422, 'this Idempotency-Key was already used for this id with different content'],
  RateLimited: [429, `too many requests per second from this caller${stored}`, none],
  HeadersTooLarge: [431, 'the request line and header fields are too large'],
  Internal: [500, 'internal error', { 'write-outcome': 'none' }],
  TransferCodingNotSupported: [501, 'the only supported transfer coding is chunked'],
  Overloaded: [503, `too many requests are waiting${stored}`, none],
  Unavailable: [503, `the database is unavailable${stored}`, none],
  KeysUnavailable: [503, `the identity provider's keys are unavailable${stored}`, none],
  DeadlineExceeded: [503, `the deadline passed${stored}`, none],
  OutcomeUnknown: [
    503,
    'the outcome is unknown: the plant may have been stored; repeat the same request',
    { ...retry, 'write-outcome': 'unknown' }
  ],
  NotReady: [503, 'the service is not ready', retry],
  VersionNotSupported: [505, 'the protocol must be HTTP/1.1']
} satisfies Record<string, [error: number, message: string, headers?: Record<string, string>]>

export type FailureName = keyof typeof failures

/** The names of all failures, with their numbers. */
export const failureNumbers: Record<string, number> = Object.fromEntries(
  Object.entries(failures).map(([name, [error]]) => [name, error])
)

interface Exact {
  /** A message that is more exact than the catalogue's. */
  message?: string
  /** Further header fields, or other values of those that the failure has; undefined leaves one out. */
  headers?: Record<string, string | undefined>
}

/** Returns the whole response that a failure must get. */
export function failure(name: FailureName, { message, headers }: Exact = {}): Reply {
  const [error, usual, own] = failures[name] as [number, string, Record<string, string>?]
  const fields = { ...everyResponse, 'error-name': name, ...own, ...headers }
  const given = Object.entries(fields).filter(
    (field): field is [string, string] => field[1] !== undefined
  )
  return {
    status: 400,
    headers: Object.fromEntries(given),
    body: JSON.stringify({ error, message: message ?? usual })
  }
}

/** Returns the whole response that a success must get. */
export const success = (plant: object): Reply => ({
  status: 200,
  headers: everyResponse,
  body: JSON.stringify(plant)
})

/** Returns the whole response to a request whose Idempotency-Key had stored the plant before. */
export function replay(plant: object): Reply {
  const response = success(plant)
  return { ...response, headers: { ...response.headers, 'idempotent-replayed': 'true' } }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const ofTransport = new Set([
  'date',
  'connection',
  'keep-alive',
  'content-length',
  'transfer-encoding'
])

/** Leaves out the header fields of the transport, and masks a request id that the service made; one that the client sent stays. */
export function maskFields(fields: Record<string, unknown>): Record<string, string> {
  const kept = Object.entries(fields).filter(([name]) => !ofTransport.has(name)) as [
    string,
    string
  ][]
  const own = Object.fromEntries(kept)
  return { ...own, 'x-request-id': own['x-request-id']?.replace(uuid, 'made') ?? 'missing' }
}
