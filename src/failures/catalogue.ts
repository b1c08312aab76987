/** The catalogue of failures: what a client gets for each, and what it should do. */

/** An entry of the catalogue. */
export interface Entry {
  /** The number in the body, an int32: the HTTP status code that would name the failure best. */
  readonly error: number
  /** The text in the body, or its beginning (`formatMessage`). A failure may have a more exact one. */
  readonly message: string
  /** What a client should do. */
  readonly advice: string
  /** Whether the same request can succeed later, and how long to repeat it. */
  readonly retry: 'never' | 'after Retry-After' | 'the same request, until it succeeds'
  /** True if only the store's operator can help. */
  readonly isForOperator?: true
  /** Which requests can meet it. Absent if each operation that can meet it declares it. */
  readonly scope?:
    | 'any request'
    | 'any operation'
    | 'requests for other paths'
    | 'requests with other methods'
    | 'requests for /readyz'
    | 'operations that write'
    | 'operations with a body'
    | 'operations with a body or parameters'
  /** What an operation that writes has stored: nothing, or perhaps its row. Absent where that is evident. */
  readonly outcome?: 'none' | 'unknown'
  /** True if a failure whose outcome is `unknown` here may be known to have stored nothing. */
  readonly mayBeNone?: boolean
  /** Header fields that are always sent with it. */
  readonly headers?: Readonly<Record<string, string>>
  /** Names of further header fields that are always sent with it, whose values depend on the request. */
  readonly varyingFields?: readonly string[]
}

const entry = (error: number, message: string, advice: string, others: Partial<Entry> = {}): Entry => ({
  error,
  message,
  advice,
  retry: 'never',
  ...others
})

const requestScope = { scope: 'any request' } as const
const operationScope = { scope: 'any operation' } as const
const challenge = { ...operationScope, varyingFields: ['www-authenticate'] } as const
const writeScope = { scope: 'operations that write' } as const
const bodyScope = { scope: 'operations with a body' } as const
/** In seconds (RFC 9110, section 10.2.3). A full queue may be empty by then, and an outage over. */
const retryAfterField = { headers: { 'retry-after': '1' } } as const
const retryAfter = { retry: 'after Retry-After', ...retryAfterField } as const
const repeat = { retry: 'the same request, until it succeeds' } as const
const nothingStored = { ...operationScope, ...retryAfter, outcome: 'none' } as const
const sendLaterAdvice = 'Send it again after `Retry-After`.'

/** Every failure that a client can meet. A message says what happened, then what to do. */
export const catalogue = {
  MalformedRequest: entry(400, 'the request is malformed', 'Correct the request.', requestScope),
  MalformedKey: entry(
    400,
    'Idempotency-Key must be 1 to 255 visible ASCII characters; quote it if it contains a comma, a quote or a space',
    'Correct the `Idempotency-Key`.',
    writeScope
  ),
  MalformedBody: entry(400, 'the body is not valid JSON', 'Correct the body.', bodyScope),
  MissingToken: entry(401, 'a bearer token is required', 'Send `Authorization: Bearer <token>`.', challenge),
  MalformedToken: entry(
    401,
    'the Authorization header is malformed',
    'Correct the `Authorization` header.',
    challenge
  ),
  InvalidToken: entry(401, 'the bearer token is not valid', "Get a valid token from the store's operator.", {
    ...challenge,
    isForOperator: true
  }),
  NotFound: entry(404, 'no such path', 'Correct the path.', { scope: 'requests for other paths' }),
  MethodNotAllowed: entry(405, 'this path does not support this method', 'Use a method in `Allow`.', {
    scope: 'requests with other methods',
    varyingFields: ['allow']
  }),
  RequestTimeout: entry(408, 'the request took too long to arrive; send it again', 'Send it again.', {
    ...requestScope,
    ...repeat
  }),
  DuplicatePlant: entry(409, 'a plant with this id already exists', 'Choose another id.'),
  BodyTooLarge: entry(413, 'the body is too large', 'Send a smaller body.', requestScope),
  UnsupportedMediaType: entry(
    415,
    'the content type must be application/json',
    'Send `application/json` in UTF-8, not compressed.',
    bodyScope
  ),
  ExpectationFailed: entry(
    417,
    'the only supported expectation is 100-continue',
    'Omit `Expect`.',
    requestScope
  ),
  InvalidPlant: entry(422, 'a value is not valid', 'Correct what `message` names.', {
    scope: 'operations with a body or parameters'
  }),
  RefusedPlant: entry(
    422,
    'the plant breaks a rule of this store',
    "Ask the store's operator for the rule.",
    { isForOperator: true }
  ),
  ReusedKey: entry(
    422,
    'this Idempotency-Key was already used for this id with different content',
    'Use another `Idempotency-Key`, or the same content.'
  ),
  RateLimited: entry(
    429,
    'too many requests per second from this caller',
    'Send it again after `Retry-After`, or send fewer.',
    nothingStored
  ),
  HeadersTooLarge: entry(
    431,
    'the request line and header fields are too large',
    'Send fewer or shorter header fields.',
    requestScope
  ),
  Internal: entry(500, 'internal error', "Report the `X-Request-Id` to the store's operator.", {
    ...requestScope,
    ...repeat,
    isForOperator: true,
    outcome: 'unknown',
    mayBeNone: true
  }),
  TransferCodingNotSupported: entry(
    501,
    'the only supported transfer coding is chunked',
    'Use `chunked` or `Content-Length`.',
    requestScope
  ),
  Overloaded: entry(503, 'too many requests are waiting', sendLaterAdvice, nothingStored),
  Unavailable: entry(503, 'the database is unavailable', sendLaterAdvice, nothingStored),
  DeadlineExceeded: entry(503, 'the deadline passed', sendLaterAdvice, nothingStored),
  ShuttingDown: entry(503, 'the service is shutting down', sendLaterAdvice, nothingStored),
  OutcomeUnknown: entry(
    503,
    'the outcome is unknown: the plant may have been stored; repeat the same request',
    'Send it again after `Retry-After`. Without an `Idempotency-Key`, a stored plant gives 409.',
    { ...writeScope, ...repeat, ...retryAfterField, outcome: 'unknown' }
  ),
  NotReady: entry(503, 'the service is not ready', 'Ask again after `Retry-After`.', {
    scope: 'requests for /readyz',
    ...retryAfter
  }),
  VersionNotSupported: entry(505, 'the protocol must be HTTP/1.1', 'Use HTTP/1.1.', requestScope)
}

/** The name of an entry of the catalogue. */
export type FailureName = keyof typeof catalogue
