/** The catalogue of failures. */

/** Which requests meet a failure that no route declares. */
type Scope = 'any request' | 'requests for other paths' | 'requests with other methods'

/** An entry of the catalogue. */
export interface Entry {
  /** The number in the body, an int32: the HTTP status code that would name the failure best. */
  readonly error: number
  /** The text in the body, unless a more exact one is known. */
  readonly message: string
  /** What a client should do. */
  readonly advice: string
  /** Absent where each route that can meet it declares it. */
  readonly scope?: Scope
  /** Header fields that always go with it. */
  readonly headers?: Readonly<Record<string, string>>
  /** Names of the header fields that always go with it and whose values depend on the request. */
  readonly fields?: readonly string[]
}

/** RFC 9110, section 10.2.3: seconds. An outage or a full queue may be over by then. */
const retryAfter = { 'retry-after': '1' }
/** Whether the plant of the request may be stored. */
const storedNothing = { 'write-outcome': 'none' }
const mayBeStored = { 'write-outcome': 'unknown' }

const anyRequest = { scope: 'any request' } as const
const challenge = { fields: ['www-authenticate'] } as const
const sendLater = 'Send it again after `Retry-After`.'

/** Every failure that a client can meet. */
export const catalogue = {
  MalformedRequest: {
    error: 400,
    message: 'the request is malformed',
    advice: 'Correct the request.',
    ...anyRequest
  },
  MalformedKey: {
    error: 400,
    message:
      'the Idempotency-Key must be 1 to 255 visible ASCII characters, with a comma or space only in quotes',
    advice: 'Correct the `Idempotency-Key`.'
  },
  MalformedBody: { error: 400, message: 'the body is not valid JSON', advice: 'Correct the body.' },
  MissingToken: {
    error: 401,
    message: 'a bearer token is required',
    advice: 'Send `Authorization: Bearer <token>`.',
    ...challenge
  },
  MalformedToken: {
    error: 401,
    message: 'the Authorization header is malformed',
    advice: 'Correct the `Authorization` header.',
    ...challenge
  },
  InvalidToken: {
    error: 401,
    message: 'the bearer token is not valid',
    advice: 'Get a valid token.',
    ...challenge
  },
  NotFound: {
    error: 404,
    message: 'there is nothing at this path',
    advice: 'Correct the path.',
    scope: 'requests for other paths'
  },
  MethodNotAllowed: {
    error: 405,
    message: 'this path does not have this method',
    advice: 'Use a method in `Allow`.',
    scope: 'requests with other methods',
    fields: ['allow']
  },
  RequestTimeout: {
    error: 408,
    message: 'the request took too long to arrive',
    advice: 'Send it again.',
    ...anyRequest
  },
  DuplicatePlant: {
    error: 409,
    message: 'a plant with this id exists already',
    advice: 'Choose another id.'
  },
  BodyTooLarge: {
    error: 413,
    message: 'the body is too large',
    advice: 'Send a smaller body.',
    ...anyRequest
  },
  UnsupportedMediaType: {
    error: 415,
    message: 'the content type must be application/json',
    advice: 'Send `application/json` in UTF-8, not compressed.'
  },
  ExpectationFailed: {
    error: 417,
    message: 'the only expectation that can be met is 100-continue',
    advice: 'Omit `Expect`.',
    ...anyRequest
  },
  InvalidPlant: {
    error: 422,
    message: 'the plant is not valid',
    advice: 'Correct the field in `message`.'
  },
  RefusedPlant: {
    error: 422,
    message: 'the plant breaks a rule of this store',
    advice: "Ask the store's operator for the rule."
  },
  ReusedKey: {
    error: 422,
    message: 'the Idempotency-Key was used for this id with other content',
    advice: 'Use another `Idempotency-Key`, or the same content.'
  },
  RateLimited: {
    error: 429,
    message: 'too many requests a second by this caller, this request has stored nothing: try again',
    advice: 'Send it again after `Retry-After`, or send fewer.',
    headers: { ...retryAfter, ...storedNothing }
  },
  HeadersTooLarge: {
    error: 431,
    message: 'the request line and header fields are too large',
    advice: 'Send fewer or shorter header fields.',
    ...anyRequest
  },
  Internal: {
    error: 500,
    message: 'internal error',
    advice: 'Report the `X-Request-Id`. With an `Idempotency-Key`, send it again.',
    headers: mayBeStored,
    ...anyRequest
  },
  TransferCodingNotSupported: {
    error: 501,
    message: 'the only transfer coding that is understood is chunked',
    advice: 'Use `chunked` or `Content-Length`.',
    ...anyRequest
  },
  Overloaded: {
    error: 503,
    message: 'too many creates are waiting, this request has stored nothing: try again',
    advice: sendLater,
    headers: { ...retryAfter, ...storedNothing }
  },
  Unavailable: {
    error: 503,
    message: 'the database is away, this request has stored nothing: try again',
    advice: sendLater,
    headers: { ...retryAfter, ...storedNothing }
  },
  DeadlineExceeded: {
    error: 503,
    message: 'the plant could not be stored in time, this request has stored nothing: try again',
    advice: sendLater,
    headers: { ...retryAfter, ...storedNothing }
  },
  ShuttingDown: {
    error: 503,
    message: 'the service is closing, this request has stored nothing: try again',
    advice: sendLater,
    headers: { ...retryAfter, ...storedNothing }
  },
  OutcomeUnknown: {
    error: 503,
    message: 'the database did not answer in time, the plant may be stored: send the same request again',
    advice: 'Send it again after `Retry-After`. Without an `Idempotency-Key`, a stored plant gives 409.',
    headers: { ...retryAfter, ...mayBeStored }
  },
  NotReady: {
    error: 503,
    message: 'the service is not ready',
    advice: 'Ask again after `Retry-After`.',
    headers: retryAfter
  },
  VersionNotSupported: {
    error: 505,
    message: 'the protocol must be HTTP/1.1',
    advice: 'Use HTTP/1.1.',
    ...anyRequest
  }
} as const satisfies Record<string, Entry>

/** The name of an entry of the catalogue. */
export type FailureName = keyof typeof catalogue
