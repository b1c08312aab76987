/** The errors of PostgreSQL and its driver, and what they mean (PostgreSQL manual, appendix A, "Error Codes"). */
import type { DatabaseError } from 'pg'
import type { FailureKind, WriteFailure } from '../shared/write-failure.ts'

/** Thrown when no connection is available: no statement was sent. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

/** Thrown when a statement may have taken effect, but its result cannot be trusted, or there is none. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}

/** What an error means for a statement that was rolled back; the first entry with its code counts. */
const meanings: [codes: RegExp, kind: FailureKind][] = [
  // A read-only server, no connection left, a prepared statement that is lost or mixed up, a full disk.
  [/^(25006|26000|42P05|53300|53100)$/, 'away'],
  // A serialization failure, a deadlock.
  [/^(40001|40P01)$/, 'chance'],
  // A lock, of the row or of a partition. Too few resources, a cancel: by our own limit, the operator's statement_timeout, or by hand. Class 25: a node
  // of Citus whose transaction was broken by the end of another node (citusdata/citus#7306).
  [/^(25...|53...|55P03|57014)$/, 'busy'],
  // A table, a column, a function, a right is missing or of another type, or the table has a rule that excludes the statement.
  [/^(0A000|42501|42703|42804|42809|42883|42P01|42P10|3D000|3F000)$/, 'gone'],
  // A damaged page, an I/O error, a bug; a null, which may be in a column that the service does not write; an expression
  // of the table that the row's text does not fit.
  [/^(42...|58...|XX...|23502)$/, 'broken'],
  // The data is at fault.
  [/^/, 'refused']
]
/** Errors whose code means something else as a rule: a stale plan (0A000), and a row that a policy refuses (42501). */
const ofRoutines: Partial<Record<string, FailureKind>> = {
  RevalidateCachedQuery: 'away',
  ExecWithCheckOptions: 'refused'
}
/**
 * What these kinds become where the error names a function that was running, such as a trigger's: then one row has caused it, and
 * the others may succeed without that row.
 */
const ofFunctions: Partial<Record<FailureKind, FailureKind>> = { away: 'busy', gone: 'broken' }

/**
 * After these, the outcome of a statement is open: a connection exception, a server that stops, an unknown completion. Where the
 * session can still be used, the error came from another one, such as a worker's or a dblink's.
 */
const openCodes = /^(08...|25P04|40003|57P0[1-5])$/
/**
 * The source files in which Citus communicates with its workers. When such a connection breaks in a transaction, Citus
 * reports no better codes than those of an internal error and of an I/O error.
 */
const workerCodes = /^(XX000|58030)$/
const workerFiles =
  /^(adaptive_executor|connection_management|multi_copy|placement_connection|remote_(commands|transaction))\.c$/
/**
 * Bad data, a constraint, a trigger, a view's check, a value that is too large. The single characters are
 * classes that PostgreSQL leaves to the authors of triggers (the SQL standard, "SQLSTATE").
 */
const ruleCodes = /^(22|23|38|44|54|P0|[6-9I-OQ-WYZ])/
/** A session that has lost its prepared statements, or whose server is not the primary. */
const staleCodes = /^(25006|26000|42P05)$/

type Report = Partial<DatabaseError>

/** Errors that PostgreSQL itself reports have a severity; all others come from the connection and have none. */
function codeOf(error: unknown): string | undefined {
  const { code = '', severity } = (error ?? {}) as Report
  return severity === undefined ? undefined : code
}

/** Returns whether the server itself reported an error. If it is then ready for another statement, the session survives. */
export const isReported = (error: unknown): boolean => codeOf(error) !== undefined

/** Returns whether this error makes a surviving session useless, and all other sessions of its server. */
export function isStale(error: unknown): boolean {
  const { routine, where } = error as Report
  const isPlan = routine === 'RevalidateCachedQuery'
  return where === undefined && (isPlan || staleCodes.test(codeOf(error) ?? ''))
}

/** Returns whether a session ended by a time-out of its own, which says nothing about others. */
export const isTimedOut = (error: unknown): boolean => /^(25P0[34]|57P05)$/.test(codeOf(error) ?? '')

/** Returns whether the data of a row breaks a rule of the table. */
export const breaksRule = (error: unknown): boolean =>
  ruleCodes.test(String(codeOf(error))) || (error as Report).routine === 'ExecWithCheckOptions'

/** Returns what an error means for the rows of its statement. */
export const diagnose = (error: unknown): WriteFailure => ({
  error: error as Error,
  kind: kindOf(error as Report)
})

function kindOf(error: Report): FailureKind {
  const { routine = '', where, file = '' } = error
  // Near the wraparound of transaction ids, PostgreSQL writes nothing until the operator vacuums. It reports 54000, the code of
  // data that is too large, so only the routine tells.
  if (error instanceof NoConnection || routine === 'GetNewTransactionId') return 'away'
  const code = codeOf(error)
  if (code === undefined || openCodes.test(code)) return 'lost'
  if (workerCodes.test(code) && workerFiles.test(file)) return 'lost'
  const [, ofCode] = meanings.find(([codes]) => codes.test(code)) as (typeof meanings)[0]
  const kind = ofRoutines[routine] ?? ofCode
  return where === undefined ? kind : (ofFunctions[kind] ?? kind)
}
