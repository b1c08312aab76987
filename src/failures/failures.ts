/** The catalogue of failures, and the one mapping from anything thrown to the interface's response. */
import { StacklessError } from './stackless-error.ts'

interface Entry {
  /** The number in the body, an int32: the HTTP status code that would name the failure best. */
  error: number
  /** The text in the body, unless a more exact one is known. */
  message: string
  /** Header fields that always go with it. */
  headers?: Record<string, string>
}

/** RFC 9110, section 10.2.3: seconds. An outage or a full queue may be over by then. */
const soon = { 'retry-after': '1' }

/** Every failure that a client can meet. */
export const catalogue = {
  MalformedRequest: { error: 400, message: 'the request is malformed' },
  MalformedKey: { error: 400, message: 'the Idempotency-Key must be 1 to 255 visible ASCII characters' },
  MalformedBody: { error: 400, message: 'the body is not valid JSON' },
  MissingToken: { error: 401, message: 'a bearer token is required' },
  MalformedToken: { error: 401, message: 'the Authorization header is malformed' },
  InvalidToken: { error: 401, message: 'the bearer token is not valid' },
  NotFound: { error: 404, message: 'there is nothing at this path' },
  MethodNotAllowed: { error: 405, message: 'this path does not have this method' },
  RequestTimeout: { error: 408, message: 'the request took too long to arrive' },
  DuplicatePlant: { error: 409, message: 'a plant with this id exists already' },
  BodyTooLarge: { error: 413, message: 'the body is too large' },
  UnsupportedMediaType: { error: 415, message: 'the content type must be application/json' },
  ExpectationFailed: { error: 417, message: 'the only expectation that can be met is 100-continue' },
  InvalidPlant: { error: 422, message: 'the plant is not valid' },
  RefusedPlant: { error: 422, message: 'the plant breaks a rule of this store' },
  ReusedKey: { error: 422, message: 'the Idempotency-Key was used for this id with another name or tag' },
  RateLimited: {
    error: 429,
    message: 'too many creates a second by this caller, this request has stored nothing: try again'
  },
  HeadersTooLarge: { error: 431, message: 'the request line and header fields are too large' },
  Internal: { error: 500, message: 'internal error' },
  TransferCodingNotSupported: {
    error: 501,
    message: 'the only transfer coding that is understood is chunked'
  },
  Overloaded: {
    error: 503,
    message: 'too many creates are waiting, this request has stored nothing: try again',
    headers: soon
  },
  Unavailable: {
    error: 503,
    message: 'the database is away, this request has stored nothing: try again',
    headers: soon
  },
  DeadlineExceeded: {
    error: 503,
    message: 'the plant could not be stored in time, this request has stored nothing: try again',
    headers: soon
  },
  ShuttingDown: {
    error: 503,
    message: 'the service is closing, this request has stored nothing: try again',
    headers: soon
  },
  OutcomeUnknown: {
    error: 503,
    message: 'the database did not answer in time, the plant may be stored: send the same request again',
    headers: soon
  },
  NotReady: { error: 503, message: 'the service is not ready', headers: soon },
  VersionNotSupported: { error: 505, message: 'the protocol must be HTTP/1.1' }
} as const satisfies Record<string, Entry>

/** The name of an entry of the catalogue. */
export type FailureName = keyof typeof catalogue

/** What a failure may carry beside its entry: a message for the client, header fields, the cause for the log. */
export interface FailureDetails {
  message?: string
  headers?: Record<string, string>
  cause?: unknown
}

/** A failure of the catalogue, thrown anywhere and answered by the error handler. */
export class Failure extends StacklessError {
  override readonly name: FailureName
  readonly error: number
  readonly headers: Record<string, string>

  constructor(name: FailureName, { message, headers, cause }: FailureDetails = {}) {
    const entry: Entry = catalogue[name]
    super(message ?? entry.message, cause)
    this.name = name
    this.error = entry.error
    this.headers = { ...entry.headers, ...headers }
  }
}

/** Errors of Fastify, and of a request that its client cut off, by code: the client's doing. */
const clientErrors = new Map<unknown, FailureName>([
  ['ECONNRESET', 'MalformedRequest'],
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'BodyTooLarge'],
  ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'MalformedRequest'],
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'UnsupportedMediaType']
])

/** Gives the failure for anything thrown; what is not known to be the client's doing is internal. Never throws. */
export function toFailure(thrown: unknown): Failure {
  try {
    if (thrown instanceof Failure) return thrown
    const name = thrown instanceof Error && 'code' in thrown ? clientErrors.get(thrown.code) : undefined
    return new Failure(name ?? 'Internal', { cause: thrown })
  } catch (error) {
    // What was thrown cannot even be looked at.
    return new Failure('Internal', { cause: error })
  }
}

/** Gives the interface's response for a failure: status 400, its header fields, and a JSON body of shape Error. */
export function toResponse({ error, message, headers }: Failure) {
  return { status: 400, headers, body: JSON.stringify({ error, message }) } as const
}
