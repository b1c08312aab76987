/** The errors of PostgreSQL and its driver, and what they mean (PostgreSQL manual, appendix A, "Error Codes"). */
import type { DatabaseError } from 'pg'
import type { FailureKind, WriteFailure } from '../group-commit/write-failure.ts'

/** Thrown when no session is available: no statement was sent. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

/** Thrown when a statement may have taken effect, but its result cannot be trusted, or there is none. */
export class ResultUnknown extends Error {
  override readonly name = 'ResultUnknown'
}

type Kinds = Readonly<Partial<Record<string, FailureKind>>>

/** Makes a table from rows of one or more keys, separated by spaces. */
const makeTable = (rows: [keys: string, kind: FailureKind][]): Kinds =>
  Object.fromEntries(rows.flatMap(([keys, kind]) => keys.split(' ').map((key) => [key, kind])))

/** What a code means that means something else than its class. */
export const byCode = makeTable([
  ['23502', 'broken'], // a null, which may be in a column that the service does not write
  ['25006', 'away'], // a read-only server
  ['26000 42P05', 'away'], // a prepared statement that a pooler has lost, or mixed up with another
  ['40001 40P01', 'chance'], // a serialization failure, a deadlock
  ['0A000', 'gone'], // a rule of the table that excludes the statement
  ['3D000 3F000 42501 42703 42883 42P01 42P10', 'gone'], // a table, a column, a function, a right is missing
  ['42804 42809', 'gone'], // a column or a table is of another type
  ['53100 53300', 'away'], // a full disk, no session left
  ['55P03', 'busy'], // a lock, of the row or of a partition
  ['57014', 'busy'], // a cancel: by our own limit, the operator's statement_timeout, or by hand
  ['40003', 'lost'], // a statement whose completion is unknown
  ['25P04 57P05', 'lost'], // a session that a time-out of its own has ended
  ['57P01 57P02 57P03 57P04', 'lost'] // a server that stops or starts, a database that was dropped
])
/** What a class means, by the two characters with which its codes begin. In any other class, the data is at fault. */
export const byClass = makeTable([
  ['08', 'lost'], // a connection exception
  ['25', 'busy'], // on Citus, a transaction that the end of another node has broken (citusdata/citus#7306)
  ['42', 'broken'], // a syntax error in what an expression of the table makes of the row's text, such as a tsquery
  ['53', 'busy'], // too few resources
  ['58 XX', 'broken'] // an I/O error, a damaged page, a bug
])
/** Errors whose code means something else as a rule: a stale plan (0A000), and a row that a policy refuses (42501). */
const byRoutine: Kinds = {
  RevalidateCachedQuery: 'away',
  ExecWithCheckOptions: 'refused'
}
/**
 * What these kinds become where the error names a function that was running, such as a trigger's: then one row has caused
 * it, and the others may succeed without that row.
 */
const inFunctions: Kinds = { away: 'busy', gone: 'broken' }

/**
 * How Citus reports that it has lost a worker in a transaction: with the code of an internal or of an I/O error, so only
 * the source file tells.
 */
const workerCodes = /^(XX000|58030)$/
const workerFiles =
  /^(adaptive_executor|connection_management|multi_copy|placement_connection|remote_(commands|transaction))\.c$/
/** Bad data (22), a constraint (23), a view's check (44), a value that is too large (54). */
const dataClasses = /^(22|23|44|54)/
/** A trigger (38, P0), and the classes that the SQL standard leaves to authors: those from 6 to 9 and from I to Z but P and X. */
const authorsClasses = /^(38|P0|[6-9I-OQ-WYZ])/
/** The first line of the context of what a trigger raises on purpose. Of a statement that fails in it, that is the statement. */
const onPurpose = /^[^\n]* RAISE(\n|$)/
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

/** Returns whether an error makes its session useless although that survives. */
export function isStale(error: unknown): boolean {
  const { routine, where } = error as Report
  const isPlan = routine === 'RevalidateCachedQuery'
  return where === undefined && (isPlan || staleCodes.test(codeOf(error) ?? ''))
}

/** Returns whether a statement itself has met a read-only server, and not one of its functions another server. */
export const isReadOnlyError = (error: unknown): boolean =>
  codeOf(error) === '25006' && (error as Report).where === undefined

/** Returns whether a session ended by a time-out of its own, which says nothing about other sessions. */
export const isTimedOut = (error: unknown): boolean => timeOutCodes.test(codeOf(error) ?? '')

/**
 * Returns whether a row breaks a rule: one of the table, or of a trigger that raises it on purpose. What else fails in a trigger
 * is its author's fault, as in a statement about another table; so is a partition that nobody has made, which has no constraint.
 */
export function breaksRule(error: unknown): boolean {
  const { where, routine, constraint } = error as Report
  const code = codeOf(error) ?? ''
  if (authorsClasses.test(code)) return true
  if (where !== undefined) return dataClasses.test(code) && onPurpose.test(where)
  if (code === '23514' && constraint === undefined) return false
  return dataClasses.test(code) || routine === 'ExecWithCheckOptions'
}

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
  const kindOfCode = byCode[code] ?? byClass[code.slice(0, 2)] ?? 'refused'
  // Even if the session survives: then another one met the error, such as a worker's or a dblink's.
  if (kindOfCode === 'lost') return 'lost'
  const kind = byRoutine[routine] ?? kindOfCode
  return where === undefined ? kind : (inFunctions[kind] ?? kind)
}
