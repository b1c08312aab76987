/**
 * What the errors of PostgreSQL and of its driver mean for the rows of a statement (PostgreSQL
 * manual, appendix A, "Error Codes"). `diagnose` sorts an error into the kinds of group commit, and
 * `breaksRule` says whether the client's data is at fault.
 */
import type { DatabaseError } from 'pg'
import type { AttemptFailure, FailureKind } from '../group-commit/types.ts'

/** Thrown when no session was available, so that no statement was sent. */
export class NoConnection extends Error {}

/** The message about a server that refuses writes: a standby, or one that was made read-only. */
export const readOnly = 'the database is read-only'

/** The kind of a code: that of the first row that matches, and `refused` if none does. */
const kindsByCode: readonly [codes: RegExp, kind: FailureKind][] = [
  // A read-only server; a full disk; too many connections; a prepared statement that a pooler has
  // lost, or has mixed up with another.
  [/^(25006|26000|42P05|53100|53300)/, 'unavailable'],
  // A rule of the table that excludes the statement; a table, a column, a function, a type or a
  // right that is missing or has changed.
  [/^(0A000|3D000|3F000|42501|42703|42804|42809|42883|42P01|42P10)/, 'schemaMismatch'],
  // A broken connection; a commit of unknown result; a session that was ended; a server that stops
  // or starts.
  [/^(08|40003|25P04|57P0)/, 'unknown'],
  // A serialization failure; a deadlock; a lock; a cancel; a lack of memory; a transaction in a
  // wrong state. Citus can report the end of a node by the last ("current transaction is aborted",
  // citusdata/citus#7306).
  [/^(40001|40P01|55P03|57014|53|25)/, 'retryable'],
  // A null, perhaps in a column that the service does not write; a text that an expression of the
  // table cannot read, such as a tsquery; an I/O error; a damaged page; a bug. `breaksRule` can
  // still find the data at fault.
  [/^(23502|42|58|XX)/, 'serverFault']
]
/**
 * Errors whose code usually means something else: a stale plan has the code of an unsupported
 * feature (0A000), and a row that row security refuses has that of a missing right (42501).
 */
const kindsByRoutine: Readonly<Record<string, FailureKind>> = {
  RevalidateCachedQuery: 'unavailable',
  ExecWithCheckOptions: 'serverFault'
}
/**
 * What these kinds become when a function, such as a trigger's, has met the error. One row has then
 * caused it, and others may succeed.
 */
const kindsInFunctions: Partial<Record<FailureKind, FailureKind>> = {
  unavailable: 'retryable',
  schemaMismatch: 'serverFault'
}
/** Files of Citus whose internal and I/O errors mean that a worker was lost in a transaction. */
const workerFiles = new Set([
  'adaptive_executor.c',
  'connection_management.c',
  'multi_copy.c',
  'placement_connection.c',
  'remote_commands.c',
  'remote_transaction.c'
])
/** Bad data (22), a constraint (23), a view's check (44), a value that is too large (54). */
const dataClasses = /^(22|23|44|54)/
/**
 * Codes that the author of a trigger chose: a trigger's own classes (38 and P0), and every class
 * whose first character the SQL standard leaves to implementations. These characters are 6 to 9 and
 * I to Z. P and X are left out, because PostgreSQL uses them itself (P0, XX).
 */
const authorsClasses = /^(38|P0|[6-9]|(?![PX])[I-Z])/
/**
 * Matches the context of an error that a trigger raises on purpose, in any language of PostgreSQL's
 * messages: its first line names PL/pgSQL and a RAISE outside of quotes. If a statement of the
 * trigger has failed, the first line has that statement instead.
 */
const raisedOnPurpose = /^(?=[^\n]*PL\/pgSQL)[^\n]*[^\w"$.]RAISE(?![\w"$(])/

type Report = Partial<DatabaseError>

/**
 * Returns the code of an error that PostgreSQL has reported, or undefined for an error of the
 * driver or the network. Only reported errors have a severity.
 */
function codeOf(error: unknown): string | undefined {
  const { code = '', severity } = (error ?? {}) as Report
  return severity === undefined ? undefined : code
}

/**
 * Returns whether PostgreSQL itself has reported an error, so that the session may have survived.
 */
export const isReported = (error: unknown): boolean => codeOf(error) !== undefined

/**
 * Returns whether a row breaks a rule of the table, or one that a trigger enforces by an error that
 * it raises on purpose. Any other error in a trigger is its author's fault, for example if it
 * writes to another table and breaks a rule there.
 */
export function breaksRule(error: unknown): boolean {
  const { where, routine } = error as Report
  const code = codeOf(error) ?? ''
  if (authorsClasses.test(code)) return true
  if (!dataClasses.test(code) || lacksPartition(error)) return false
  // An error of an attempt with savepoints has no routine, so its context must tell.
  return where === undefined || routine === 'exec_stmt_raise' || raisedOnPurpose.test(where)
}

/** Returns whether the table is partitioned, and has no partition for the row. */
export function lacksPartition(error: unknown): boolean {
  const { where, constraint } = error as Report
  return codeOf(error) === '23514' && constraint === undefined && where === undefined
}

/** Returns what an error means for the rows of its statement: its kind, and the error itself. */
export const diagnose = (error: unknown): AttemptFailure => ({
  kind: kindOf(error),
  error: error as Error
})

function kindOf(error: unknown): FailureKind {
  const { routine = '', where, file = '' } = error as Report
  // Near the wraparound of transaction ids, PostgreSQL writes nothing until the operator vacuums.
  // It reports 54000, the code of data that is too large, so only the routine tells the two apart.
  if (error instanceof NoConnection || routine === 'GetNewTransactionId') return 'unavailable'
  const code = codeOf(error)
  if (code === undefined) return 'unknown'
  const kind =
    kindsByRoutine[routine] ?? kindsByCode.find(([codes]) => codes.test(code))?.[1] ?? 'refused'
  if (kind === 'serverFault' && workerFiles.has(file)) return 'unknown'
  return where === undefined ? kind : (kindsInFunctions[kind] ?? kind)
}

/**
 * Returns the SQLSTATE of an error that PostgreSQL has reported, or of the error's cause, or
 * undefined if there is none.
 */
export const sqlstateOf = (error: unknown): string | undefined =>
  codeOf(error) ?? codeOf((error as Error | undefined)?.cause)
