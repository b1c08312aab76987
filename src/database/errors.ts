/** The errors of PostgreSQL and its driver, and what they mean (PostgreSQL manual, appendix A, "Error Codes"). */
import type { DatabaseError } from 'pg'
import type { AttemptFailure, FailureKind } from '../group-commit/types.ts'

/** Thrown when no session is available: no statement was sent. */
export class NoConnection extends Error {}

/** What is said of a server that refuses writes: a standby, or one that an operator has made read-only. */
export const readOnly = 'the database is read-only'

/** What a code means: the first row that matches. Of any other code, the data is at fault. */
const kindsByCode: readonly [codes: RegExp, kind: FailureKind][] = [
  // A read-only server, a full disk, no session left; a prepared statement that a pooler has lost, or mixed up with another.
  [/^(25006|26000|42P05|53100|53300)/, 'unavailable'],
  // A rule of the table that excludes the statement; a table, a column, a function, a type or a right that is not as it was.
  [/^(0A000|3D000|3F000|42501|42703|42804|42809|42883|42P01|42P10)/, 'schemaMismatch'],
  // A connection exception, an end of unknown result, a session that was ended, a server that stops or starts.
  [/^(08|40003|25P04|57P0)/, 'unknown'],
  // A serialization failure, a deadlock, a lock, a cancel, too few resources; on Citus, a node's end (citusdata/citus#7306).
  [/^(40001|40P01|55P03|57014|53|25)/, 'retryable'],
  // A null, perhaps in a column that the service does not write; a text that an expression of the table cannot read, such as
  // a tsquery; an I/O error, a damaged page, a bug.
  [/^(23502|42|58|XX)/, 'serverFault']
]
/** Errors whose code means something else as a rule: a stale plan (0A000), and a row that row security refuses (42501). */
const kindsByRoutine: Readonly<Record<string, FailureKind>> = {
  RevalidateCachedQuery: 'unavailable',
  ExecWithCheckOptions: 'serverFault'
}
/** What these kinds become in a function, such as a trigger's: one row has caused the error, and others may succeed. */
const kindsInFunctions: Partial<Record<FailureKind, FailureKind>> = {
  unavailable: 'retryable',
  schemaMismatch: 'serverFault'
}
/** The files of Citus whose internal and I/O errors say that it has lost a worker in a transaction. */
const workerFiles =
  /^(adaptive_executor|connection_management|multi_copy|placement_connection|remote_(commands|transaction))\.c$/
/** Bad data (22), a constraint (23), a view's check (44), a value that is too large (54). */
const dataClasses = /^(22|23|44|54)/
/** A trigger (38, P0), and the classes that the SQL standard leaves to authors: those from 6 to 9 and from I to Z but P and X. */
const authorsClasses = /^(38|P0|[6-9I-OQ-WYZ])/
/**
 * The first line of the context of what a trigger raises on purpose, in any of PostgreSQL's languages. Where a statement of the
 * trigger has failed, the first line has that statement.
 */
const raisedOnPurpose = /^(?=[^\n]*PL\/pgSQL)[^\n]*[^\w"$.]RAISE(?![\w"$(])/

type Report = Partial<DatabaseError>

/** Returns the code of an error that PostgreSQL reports, which has a severity; undefined for one of the driver or the network. */
function codeOf(error: unknown): string | undefined {
  const { code = '', severity } = (error ?? {}) as Report
  return severity === undefined ? undefined : code
}

/** Returns whether PostgreSQL itself reported an error. The session survives it if it is then ready for another statement. */
export const isReported = (error: unknown): boolean => codeOf(error) !== undefined

/**
 * Returns whether a row breaks a rule: one of the table, or of a trigger that raises it on purpose. What else fails in a trigger
 * is its author's fault, as in a statement about another table.
 */
export function breaksRule(error: unknown): boolean {
  const { where, routine } = error as Report
  const code = codeOf(error) ?? ''
  if (authorsClasses.test(code)) return true
  if (!dataClasses.test(code) || lacksPartition(error)) return false
  // The error of a row in a careful call has no routine, so the text must tell.
  return where === undefined || routine === 'exec_stmt_raise' || raisedOnPurpose.test(where)
}

/** Returns whether the table is partitioned, and nobody has made the partition for a row. */
export function lacksPartition(error: unknown): boolean {
  const { where, constraint } = error as Report
  return codeOf(error) === '23514' && constraint === undefined && where === undefined
}

/** Returns what an error means for the rows of its statement. */
export const diagnose = (error: unknown): AttemptFailure => ({ kind: kindOf(error), error: error as Error })

function kindOf(error: unknown): FailureKind {
  const { routine = '', where, file = '' } = error as Report
  // Near the wraparound of transaction ids, PostgreSQL writes nothing until the operator vacuums. It reports 54000, the
  // code of data that is too large, so only the routine tells.
  if (error instanceof NoConnection || routine === 'GetNewTransactionId') return 'unavailable'
  const code = codeOf(error)
  if (code === undefined) return 'unknown'
  const kind = kindsByRoutine[routine] ?? kindsByCode.find(([codes]) => codes.test(code))?.[1] ?? 'refused'
  if (kind === 'serverFault' && workerFiles.test(file)) return 'unknown'
  return where === undefined ? kind : (kindsInFunctions[kind] ?? kind)
}

/** Returns the SQLSTATE of an error that PostgreSQL has reported, or of what it was caused by; undefined for any other. */
export const sqlstateOf = (error: unknown): string | undefined =>
  codeOf(error) ?? codeOf((error as Error | undefined)?.cause)
