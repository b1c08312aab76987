/** A failure of the catalogue, and the one mapping from anything thrown to the interface's response. */
import { catalogue, type Entry, type FailureName } from './catalogue.ts'
import { StacklessError } from './stackless-error.ts'

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
export function toResponse({ name, error, message, headers }: Failure) {
  const fields = { 'error-name': name, ...headers }
  return { status: 400, headers: fields, body: JSON.stringify({ error, message }) } as const
}
