/** The errors of PostgreSQL and its driver, and what they mean (PostgreSQL manual, appendix A, "Error Codes"). */
import type { DatabaseError } from 'pg'
import type { FailureKind, WriteFailure } from '../shared/write-failure.ts'

/** Thrown when no session is available: no statement was sent. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

/** Thrown when a statement may have taken effect, but its result cannot be trusted, or there is none. */
export class ResultUnknown extends Error {
  override readonly name = 'ResultUnknown'
}

/** What the codes mean that mean something else than their class. */
export const byCode: Readonly<Partial<Record<string, FailureKind>>> = {
  // A constraint by its class. But the null may be in a column that the service does not write.
  '23502': 'broken',
  // A read-only server.
  '25006': 'away',
  // A session that `transaction_timeout` has ended.
  '25P04': 'lost',
  // Prepared statements that are lost, or mixed up with others: a pooler.
  '26000': 'away',
  '42P05': 'away',
  // A serialization failure, a deadlock.
  '40001': 'chance',
  '40P01': 'chance',
  // A statement whose completion is unknown.
  '40003': 'lost',
  // A right, a table, a column, a function or a type is missing, or the table has a rule that excludes the statement.
  '0A000': 'gone',
  '3D000': 'gone',
  '3F000': 'gone',
  '42501': 'gone',
  '42703': 'gone',
  '42804': 'gone',
  '42809': 'gone',
  '42883': 'gone',
  '42P01': 'gone',
  '42P10': 'gone',
  // A full disk, no session left.
  '53100': 'away',
  '53300': 'away',
  // A lock, of the row or of a partition.
  '55P03': 'busy',
  // A cancel: by our own limit, the operator's statement_timeout, or by hand.
  '57014': 'busy',
  // A server that stops or starts, a database that was dropped, a session that was idle for too long.
  '57P01': 'lost',
  '57P02': 'lost',
  '57P03': 'lost',
  '57P04': 'lost',
  '57P05': 'lost'
}
/** What a class of codes means, by its two characters. In every other class, the data is at fault. */
export const byClass: Readonly<Partial<Record<string, FailureKind>>> = {
  // A connection exception.
  '08': 'lost',
  // A node of Citus whose transaction was broken by the end of another node (citusdata/citus#7306).
  '25': 'busy',
  // An expression of the table that the row's text does not fit.
  '42': 'broken',
  // Too few resources.
  '53': 'busy',
  // An I/O error, a damaged page, a bug.
  '58': 'broken',
  XX: 'broken'
}
/** Errors whose code means something else as a rule: a stale plan (0A000), and a row that a policy refuses (42501). */
const byRoutine: Partial<Record<string, FailureKind>> = {
  RevalidateCachedQuery: 'away',
  ExecWithCheckOptions: 'refused'
}
/**
 * What these kinds become where the error names a function that was running, such as a trigger's: then one row has caused
 * it, and the others may succeed without that row.
 */
const inFunctions: Partial<Record<FailureKind, FailureKind>> = { away: 'busy', gone: 'broken' }

/**
 * How Citus reports that it has lost a worker in a transaction: with the code of an internal or of an I/O error, so only
 * the source file tells.
 */
const workerCodes = /^(XX000|58030)$/
const workerFiles =
  /^(adaptive_executor|connection_management|multi_copy|placement_connection|remote_(commands|transaction))\.c$/
/**
 * Bad data (22), a constraint (23), a trigger (38, P0), a view's check (44), a value that is too large (54), and the classes
 * that the SQL standard ("SQLSTATE") leaves to authors of triggers: those from 6 to 9 and from I to Z but P and X.
 */
const ruleClasses = /^(22|23|38|44|54|P0|[6-9I-OQ-WYZ])/
/** A read-only server, and prepared statements that are lost or mixed up. */
const staleCodes = /^(25006|26000|42P05)$/
/** `idle_in_transaction_session_timeout`, `transaction_timeout`, `idle_session_timeout`. */
const timeOutCodes = /^(25P03|25P04|57P05)$/

type Report = Partial<DatabaseError>

/** Returns the code of an error that PostgreSQL reports, which has a severity; undefined for one of the driver or the network. */
function codeOf(error: unknown): string | undefined {
  const { code = '', severity } = (error ?? {}) as Report
  return severity === undefined ? undefined : code
}

/** Returns whether PostgreSQL itself reported an error. The session survives it if it is then ready for another statement. */
export const isReported = (error: unknown): boolean => codeOf(error) !== undefined

/** Returns whether an error makes its session useless although that survives, and all other sessions of its server. */
export function isStale(error: unknown): boolean {
  const { routine, where } = error as Report
  const isPlan = routine === 'RevalidateCachedQuery'
  return where === undefined && (isPlan || staleCodes.test(codeOf(error) ?? ''))
}

/** Returns whether a session ended by a time-out of its own, which says nothing about other sessions. */
export const isTimedOut = (error: unknown): boolean => timeOutCodes.test(codeOf(error) ?? '')

/** Returns whether the data of a row breaks a rule of the table. */
export const breaksRule = (error: unknown): boolean =>
  ruleClasses.test(String(codeOf(error))) || (error as Report).routine === 'ExecWithCheckOptions'

/** Returns what an error means for the rows of its statement. */
export const diagnose = (error: unknown): WriteFailure => ({
  error: error as Error,
  kind: kindOf(error as Report)
})

function kindOf(error: Report): FailureKind {
  const { routine = '', where, file = '' } = error
  // Near the wraparound of transaction ids, PostgreSQL writes nothing until the operator vacuums. It reports 54000, the
  // code of data that is too large, so only the routine tells.
  if (error instanceof NoConnection || routine === 'GetNewTransactionId') return 'away'
  const code = codeOf(error)
  if (code === undefined || (workerCodes.test(code) && workerFiles.test(file))) return 'lost'
  const ofCode = byCode[code] ?? byClass[code.slice(0, 2)] ?? 'refused'
  // Even if the session survives: then another one met the error, such as a worker's or a dblink's.
  if (ofCode === 'lost') return 'lost'
  const kind = byRoutine[routine] ?? ofCode
  return where === undefined ? kind : (inFunctions[kind] ?? kind)
}
