/** Every failure that a client can meet: the catalogue, the error that carries one, and the interface's response to it. */

/** What a create that fails has stored: nothing, or perhaps its plant. */
export type Outcome = 'none' | 'unknown'

/** The catalogue: the number in the body; the message, which a more exact one may replace; what was stored, if not evident. */
export const catalogue = {
  MalformedRequest: [400, 'the request is malformed'],
  MalformedKey: [
    400,
    'Idempotency-Key must be 1 to 255 visible ASCII characters; quote it if it contains a comma, a quote or a space'
  ],
  MalformedBody: [400, 'the body is not valid JSON'],
  MissingToken: [401, 'a bearer token is required'],
  MalformedToken: [401, 'the Authorization header is malformed'],
  InvalidToken: [401, 'the bearer token is not valid'],
  UnacceptableCaller: [403, "the token's caller has a name that this store does not take"],
  NotFound: [404, 'no such path'],
  MethodNotAllowed: [405, 'this path does not support this method'],
  RequestTimeout: [408, 'the request took too long to arrive; send it again'],
  DuplicatePlant: [409, 'a plant with this id already exists'],
  BodyTooLarge: [413, 'the body is too large'],
  UnsupportedMediaType: [415, 'the content type must be application/json'],
  ExpectationFailed: [417, 'the only supported expectation is 100-continue'],
  InvalidPlant: [422, 'a value is not valid'],
  RefusedPlant: [422, 'the plant breaks a rule of this store'],
  ReusedKey: [422, 'this Idempotency-Key was already used for this id with different content'],
  RateLimited: [429, 'too many requests per second from this caller', 'none'],
  HeadersTooLarge: [431, 'the request line and header fields are too large'],
  Internal: [500, 'internal error', 'unknown'],
  TransferCodingNotSupported: [501, 'the only supported transfer coding is chunked'],
  Overloaded: [503, 'too many requests are waiting', 'none'],
  Unavailable: [503, 'the database is unavailable', 'none'],
  KeysUnavailable: [503, "the identity provider's keys are unavailable", 'none'],
  DeadlineExceeded: [503, 'the deadline passed', 'none'],
  OutcomeUnknown: [
    503,
    'the outcome is unknown: the plant may have been stored; repeat the same request',
    'unknown'
  ],
  NotReady: [503, 'the service is not ready'],
  VersionNotSupported: [505, 'the protocol must be HTTP/1.1']
} satisfies Record<string, readonly [error: number, message: string, outcome?: Outcome]>

/** The name of a failure. */
export type FailureName = keyof typeof catalogue

interface Details {
  message?: string
  headers?: Record<string, string>
  cause?: unknown
  /** `none` if it is known that nothing was stored, although the catalogue says `unknown`. */
  outcome?: 'none' | undefined
}

/** A failure of the catalogue, thrown anywhere. Its cause is for the log. It has no stack: an outage makes thousands a second. */
export class Failure extends Error {
  override readonly name: FailureName
  readonly error: number
  /** Its own header fields. */
  readonly headers: Record<string, string>
  readonly outcome: Outcome | undefined

  constructor(name: FailureName, { message, headers = {}, cause, outcome }: Details = {}) {
    const [error, usual, usualOutcome]: readonly [number, string, Outcome?] = catalogue[name]
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message ?? usual, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
    this.name = name
    this.error = error
    this.headers = headers
    this.outcome = outcome ?? usualOutcome
  }
}

/**
 * The status codes of Fastify and of plugins that have a failure of their own. All others from 400
 * to 499 mean a malformed request, such as 400, 412 and 416 from the files of the docs' page. These
 * have 403 for a path that no file can have, such as `a/../b`.
 */
const byStatusCode: Record<number, FailureName> = {
  403: 'NotFound',
  404: 'NotFound',
  413: 'BodyTooLarge',
  415: 'UnsupportedMediaType'
}

/** Returns the failure that anything thrown means: Internal, unless it is a Failure or the client's fault. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown
  const { statusCode = 500 } = Object(thrown) as { statusCode?: number }
  // The message of a client's fault can quote what the client has sent.
  return statusCode >= 400 && statusCode < 500
    ? new Failure(byStatusCode[statusCode] ?? 'MalformedRequest')
    : new Failure('Internal', { cause: thrown })
}

/** The methods of requests that store nothing (RFC 9110, section 9.2.1): their failures say nothing of it. */
const safeMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

/** Returns the interface's response for a failure of a request with this method, if it is known. No other function makes one. */
export function toResponse({ name, error, message, headers, outcome }: Failure, method = '') {
  const isSafe = safeMethods.includes(method)
  // By the catalogue: an Internal that has stored nothing is the operator's to solve, and says no more.
  const isLater = catalogue[name][2] === 'none'
  const headerFields = {
    'error-name': name,
    // Seconds (RFC 9110, section 10.2.3): a full queue may be empty after this time, and an outage over.
    ...((error === 429 || error === 503) && { 'retry-after': '1' }),
    ...headers,
    ...(outcome && !isSafe && { 'write-outcome': outcome })
  }
  const end = isSafe ? 'retry later' : 'this request stored nothing; retry later'
  const text = isLater ? `${message}; ${end}` : message
  return {
    status: 400,
    headers: headerFields,
    body: JSON.stringify({ error, message: text })
  } as const
}
