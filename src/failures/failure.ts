/** A failure of the catalogue, and the one mapping from anything thrown to the interface's response. */
import { catalogue, type Entry, type FailureName } from './catalogue.ts'

/**
 * An error without a stack: where it was made says nothing that its name and cause do not, and under overload or in an
 * outage, when there are thousands a second, collecting stacks would cost more than the rest of the responses.
 */
export class StacklessError extends Error {
  constructor(message: string, cause?: unknown) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** What a failure may carry beside its entry: a message for the client, header fields, the cause for the log. */
export interface FailureDetails {
  message?: string
  headers?: Record<string, string>
  cause?: unknown
}

/** A failure of the catalogue, thrown anywhere and sent by the error handler. */
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

/** Errors of Fastify by code whose cause is the client. */
const clientErrors = new Map<unknown, FailureName>([
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
export function toResponse({ name, error, message, headers }: Failure) {
  const fields = { 'error-name': name, ...headers }
  return { status: 400, headers: fields, body: JSON.stringify({ error, message }) } as const
}

/**
 * Returns the header fields of the response to a request: its id, and that the response is no page
 * (content-security-policy, for a browser that shows one all the same), is of the type that it says, and is kept by no
 * cache. The balancer says what there is to say of TLS.
 */
export function responseHeaders(requestId: string) {
  return {
    'x-request-id': requestId,
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff'
  }
}

/** Writes the whole response to a request that Fastify does not see (RFC 9112, section 4). */
export function writeResponse(failure: Failure, requestId: string): string {
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
