/**
 * Every failure that a client can meet: the catalogue, the error that carries a failure, and the
 * response that the client gets.
 */

/** What a failed create has stored: `none` is nothing, `unknown` is nothing or the plant. */
export type Outcome = 'none' | 'unknown'

/**
 * The catalogue. Each failure has the number in its body, its usual message, and what was stored,
 * unless that is obvious.
 */
export const catalogue = {
  MalformedRequest: [400, 'the request is malformed'],
  MalformedKey: [
    400,
    'Idempotency-Key must be 1 to 255 visible ASCII characters; ' +
      'quote it if it contains a comma, a quote or a space'
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
  /** `none` if nothing was stored, although the catalogue says `unknown`. */
  outcome?: 'none' | undefined
}

/**
 * A failure of the catalogue. Any code can throw it. Its cause is only for the log. It has no
 * stack, because an outage causes thousands of failures a second.
 */
export class Failure extends Error {
  override readonly name: FailureName
  readonly error: number
  /** The header fields that only this failure has. */
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
 * The failures for some status codes of errors that Fastify and its plugins throw. All other codes
 * from 400 to 499 mean a malformed request, such as the 400, 412 and 416 of the docs' page for a
 * file. For a path that no file can have, such as `a/../b`, that page has the code 403.
 */
const byStatusCode: Record<number, FailureName> = {
  403: 'NotFound',
  404: 'NotFound',
  413: 'BodyTooLarge',
  415: 'UnsupportedMediaType'
}

/**
 * Returns the failure for anything that was thrown: the Failure itself, one for a client's fault,
 * and otherwise Internal.
 */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown
  const { statusCode = 500 } = Object(thrown) as { statusCode?: number }
  // Do not pass the error on: its message can quote what the client has sent.
  return statusCode >= 400 && statusCode < 500
    ? new Failure(byStatusCode[statusCode] ?? 'MalformedRequest')
    : new Failure('Internal', { cause: thrown })
}

/**
 * The methods of requests that store nothing (RFC 9110, section 9.2.1). Their failures say nothing
 * about storing.
 */
const safeMethods = ['GET', 'HEAD', 'OPTIONS', 'TRACE']

/**
 * Returns the response for a failure. No other function makes one. `method` is the request's, if it
 * is known.
 */
export function toResponse({ name, error, message, headers, outcome }: Failure, method = '') {
  const isSafe = safeMethods.includes(method)
  // Look at the catalogue, and not at `outcome`: retrying cannot fix an Internal, even if nothing
  // was stored.
  const canRetry = catalogue[name][2] === 'none'
  const headerFields = {
    'error-name': name,
    // The unit is seconds (RFC 9110, section 10.2.3). A full queue can be empty after this time,
    // and an outage can be over.
    ...((error === 429 || error === 503) && { 'retry-after': '1' }),
    ...headers,
    ...(outcome && !isSafe && { 'write-outcome': outcome })
  }
  const advice = isSafe ? 'retry later' : 'this request stored nothing; retry later'
  const text = canRetry ? `${message}; ${advice}` : message
  return {
    status: 400,
    headers: headerFields,
    body: JSON.stringify({ error, message: text })
  } as const
}
