/** A failure of the catalogue, the one mapping from anything thrown to the interface's response, and faults at the start. */
import { StacklessError } from '../shared/stackless-error.ts'
import { catalogue, type Entry, type FailureName } from './catalogue.ts'

interface FailureDetails {
  message?: string
  headers?: Record<string, string>
  cause?: unknown
  /** That it stored nothing, where the catalogue's entry may be so. */
  outcome?: 'none' | undefined
}

/** A failure of the catalogue, thrown anywhere and sent by the error handler; the cause is for the log. */
export class Failure extends StacklessError {
  override readonly name: FailureName
  readonly error: number
  readonly headers: Record<string, string>
  readonly outcome: Entry['outcome']
  /** How many rows its last transaction had, for the log; undefined where it was in none. */
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

/** Returns the failure for anything thrown: internal, unless the client is known to be its cause. Never throws. */
export function toFailure(thrown: unknown): Failure {
  try {
    if (thrown instanceof Failure) return thrown
    const code = thrown instanceof Error && 'code' in thrown && thrown.code
    const isOfClient = code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE'
    return new Failure(isOfClient ? 'UnsupportedMediaType' : 'Internal', { cause: thrown })
  } catch (error) {
    // Inspecting what was thrown can throw, too.
    return new Failure('Internal', { cause: error })
  }
}

/** Returns a failure's message as clients get it; `writes` says whether it comes from an operation that writes. */
export function writeMessage(of: Entry | Failure, writes: boolean): string {
  const { message } = of
  const { outcome }: Entry = of instanceof Failure ? catalogue[of.name] : of
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
  const body = JSON.stringify({ error, message: writeMessage(failure, writes) })
  return { status: 400, headers: fields, body } as const
}

/** Thrown before the service listens; `faults` holds a readable line for each fault, and no secret. */
export class StartupFault extends Error {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/** Writes a start-up failure to standard error as plain text and makes the process exit with code 1. */
export function reportStartupFault(thrown: unknown): void {
  const faults = thrown instanceof StartupFault ? thrown.faults : [String(thrown)]
  for (const fault of faults) process.stderr.write(`plant-store: ${fault}\n`)
  process.exitCode = 1
}
