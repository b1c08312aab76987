/** Failures of the catalogue: which one anything thrown is, and its response. No other file maps a failure to a response. */
import { StacklessError } from '../shared/stackless-error.ts'
import { catalogue, type Entry, type FailureName } from './catalogue.ts'

interface FailureDetails {
  message?: string
  headers?: Record<string, string>
  cause?: unknown
  /** `none` if it is known to have stored nothing, although the catalogue's entry is `unknown` (`mayBeNone`). */
  outcome?: 'none' | undefined
}

/** A failure of the catalogue. It may be thrown anywhere; the error handler sends it. Its cause is for the log alone. */
export class Failure extends StacklessError {
  override readonly name: FailureName
  readonly error: number
  readonly headers: Record<string, string>
  readonly outcome: Entry['outcome']
  /** How many rows its create's last transaction had, for the log; undefined where there was none. */
  rows: number | undefined = undefined

  constructor(name: FailureName, { message, headers, cause, outcome }: FailureDetails = {}) {
    const entry: Entry = catalogue[name]
    super(message ?? entry.message, cause)
    this.name = name
    this.error = entry.error
    this.headers = { ...entry.headers, ...headers }
    this.outcome = outcome ?? entry.outcome
  }
}

/** Returns the failure that anything thrown means: Internal, unless it is a Failure or the client's fault. Never throws. */
export function toFailure(thrown: unknown): Failure {
  try {
    if (thrown instanceof Failure) return thrown
    const code = thrown instanceof Error && 'code' in thrown && thrown.code
    const isOfClient = code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE'
    return new Failure(isOfClient ? 'UnsupportedMediaType' : 'Internal', { cause: thrown })
  } catch (error) {
    // What was thrown may be an object that throws when it is inspected.
    return new Failure('Internal', { cause: error })
  }
}

/** Returns the message that clients get of a failure or an entry; `writes` says whether its operation writes. */
export function formatMessage(failure: Entry | Failure, writes: boolean): string {
  const { message } = failure
  const { outcome }: Entry = failure instanceof Failure ? catalogue[failure.name] : failure
  if (outcome !== 'none') return message
  return `${message}${writes ? '; this request stored nothing' : ''}; retry later`
}

/**
 * Returns the interface's response for a failure: status 400, its header fields, and a JSON body of shape Error. If its
 * operation writes, the response says what the request has stored.
 */
export function toResponse(failure: Failure, writes = false) {
  const { name, error, headers, outcome } = failure
  const fields = { 'error-name': name, ...headers, ...(writes && outcome && { 'write-outcome': outcome }) }
  const body = JSON.stringify({ error, message: formatMessage(failure, writes) })
  return { status: 400, headers: fields, body } as const
}
