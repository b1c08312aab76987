/** A failure of the catalogue, and the one mapping from anything thrown to the interface's response. */
import { catalogue, type Entry, type FailureName } from './catalogue.ts'

/**
 * The base of errors that become responses: without a stack. Its name and cause say enough, and under overload or in an
 * outage, with thousands a second, collecting stacks would cost more than the rest of the responses.
 */
export class StacklessError extends Error {
  constructor(message: string, cause?: unknown) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, cause === undefined ? undefined : { cause })
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** What a failure may have besides its entry: a message for the client, header fields, the cause for the log. */
type FailureDetails = { message?: string; headers?: Record<string, string>; cause?: unknown }

/** A failure of the catalogue, thrown anywhere and sent by the error handler. */
export class Failure extends StacklessError {
  override readonly name: FailureName
  readonly error: number
  readonly headers: Record<string, string>
  readonly outcome: Entry['outcome']

  constructor(name: FailureName, { message, headers, cause }: FailureDetails = {}) {
    const entry: Entry = catalogue[name]
    super(message ?? entry.message, cause)
    this.name = name
    this.error = entry.error
    this.headers = { ...entry.headers, ...headers }
    this.outcome = entry.outcome
  }
}

/** Returns the failure for anything thrown: internal, unless the client is known to be its cause. Never throws. */
export function toFailure(thrown: unknown): Failure {
  try {
    if (thrown instanceof Failure) return thrown
    const code = thrown instanceof Error && 'code' in thrown && thrown.code
    const isOfClient = code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE'
    return new Failure(isOfClient ? 'UnsupportedMediaType' : 'Internal', { cause: thrown })
  } catch (error) {
    // Even to inspect what was thrown throws.
    return new Failure('Internal', { cause: error })
  }
}

/** Returns a failure's message as clients get it; `writes`: from an operation that writes. */
export function writeMessage({ message, outcome }: Entry | Failure, writes: boolean): string {
  if (outcome !== 'none') return message
  return `${message}${writes ? ', this request has stored nothing' : ''}: try again`
}

/**
 * Returns the interface's response for a failure: status 400, its header fields, and a JSON body of shape Error. That of
 * an operation that writes says what the request has stored.
 */
export function toResponse(failure: Failure, writes = false) {
  const { name, error, headers, outcome } = failure
  const fields = { 'error-name': name, ...headers, ...(writes && outcome && { 'write-outcome': outcome }) }
  return {
    status: 400,
    headers: fields,
    body: JSON.stringify({ error, message: writeMessage(failure, writes) })
  } as const
}

/**
 * Returns the header fields of every response: the request's id, and that the response is no page (for a browser that
 * shows it as one all the same), has the type that it claims, and must not be cached. What concerns TLS is the
 * balancer's task.
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
