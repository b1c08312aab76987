/** What PostgreSQL and its driver report, and what it means (PostgreSQL manual, appendix A, "Error Codes"). */
import { Failure } from '../failures/failure.ts'
import type { WriteFailure } from '../group-commit/types.ts'

/** Thrown when there is no connection to be had: no statement was sent. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'

  constructor(cause: unknown) {
    super('there is no connection to the database', { cause })
  }
}

/** Thrown for a statement that has taken effect, or may have, without its answer being worth anything. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'

  constructor(message: string, cause?: unknown) {
    super(message, { cause })
  }
}

/**
 * Nothing is written, and a repeat may succeed: serialization failures and deadlocks, too few resources, a read-only
 * server, a prepared statement that a pooler has lost or that a change of the table has made useless.
 */
const transient = /^(40001|40P01|53...|25006|26000|0A000)$/
/** A connection exception, a server or session that ends, also by a transaction time-out: the outcome is open. */
const uncertain = /^(08...|25P04|40003|57P0[1-5])$/
/**
 * The source files in which Citus speaks to its workers: where a connection breaks in the midst of a transaction, it
 * has no better codes than those of an internal error and of an I/O error.
 */
const broken = /^(XX000|58030)$/
const onWorkers =
  /^(adaptive_executor|connection_management|multi_copy|placement_connection|remote_(commands|transaction))\.c$/
const lockNotAvailable = '55P03'
/** Cancelled: by our own limit, the operator's statement_timeout, or by hand. */
const queryCanceled = '57014'
/** Something is missing or broken; all other errors are one row's. */
const fatal = /^(42P01|42P05|42703|42883|3D000|3F000|58...|XX...)$/
/** What one row can meet, in a trigger, on a damaged page, or at another transaction's row; the others are the server's. */
const oneRows = /^(40001|40P01|53...|58...|XX...)$/
/** Bad data, a constraint, a trigger, a view's check, a value that is too large. */
const refused = /^(22|23|38|44|54|P0)/
/** Classes that PostgreSQL leaves to those who write triggers (the SQL standard, "SQLSTATE"). */
const custom = /^[6-9I-OQ-WYZ]/
/** A connection that meets one of these has lost its server. */
const lost = /^(08...|25P04|57P0[1-5])$/
/** One that meets these has lost its statements, or has a server that is not the primary, unless a trigger raised them. */
const stale = /^(25006|26000|0A000)$/

/** Errors that PostgreSQL itself reports have a severity; all others come from the connection and have none. */
function codeOf(error: unknown): string | undefined {
  const { code = '', severity } = error as { code?: string; severity?: string }
  return severity === undefined ? undefined : code
}

/** Tells whether an error was met in a function, such as a trigger's: the statement itself has no context. */
const hasContext = (error: unknown) => (error as { where?: string }).where !== undefined

/** Tells whether the connection that met this error is of no more use. */
export function isConnectionLost(error: unknown): boolean {
  const code = codeOf(error)
  return code === undefined || lost.test(code) || (stale.test(code) && !hasContext(error))
}

function isFromWorkers(error: unknown): boolean {
  const { file = '' } = error as { file?: string }
  return onWorkers.test(file)
}

/** Tells whether the engine lacks a function that PostgreSQL has. */
export const isFunctionMissing = (error: unknown): boolean => codeOf(error) === '42883'

/** Says what an error means for the rows of the statement that met it. */
export function classify(error: unknown): WriteFailure {
  const code = codeOf(error)
  if (error instanceof NoConnection) return 'transient'
  if (code === undefined || uncertain.test(code)) return 'uncertain'
  if (broken.test(code) && isFromWorkers(error)) return 'uncertain'
  if (transient.test(code)) return 'transient'
  if (code === lockNotAvailable) return 'locked'
  if (code === queryCanceled) return 'slow'
  return fatal.test(code) ? 'fatal' : 'refused'
}

/**
 * Says of an error that is transient or fatal whether a single row can be what causes it, in every attempt with that row.
 * A table or a column that is missing is missing for all, unless the error has a context: then a trigger looked for it.
 */
export function mayBeOneRows(error: unknown): boolean {
  return oneRows.test(codeOf(error) ?? '') || hasContext(error)
}

/** Gives the failure for an error that repeating does not mend. */
export function toStorageFailure(error: unknown): Failure {
  const code = String(codeOf(error))
  const isRefused = refused.test(code) || custom.test(code)
  return new Failure(isRefused ? 'RefusedPlant' : 'Internal', { cause: error })
}
