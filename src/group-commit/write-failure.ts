/** Why a write has failed, by what the database says; and why a row has no outcome of the database. */
import { StacklessError } from '../failures.ts'

/** What group commit does after each is in table.ts. */
export type FailureKind =
  /** The database is unavailable for any row, and stored nothing: no connection, a read-only server, a full disk. */
  | 'away'
  /** A table, a column, a function or a right is missing, for every row. */
  | 'gone'
  /** A row's lock, a time limit, a deadlock or too few resources: the same rows may succeed later. */
  | 'busy'
  /** There is no verdict, as after a lost connection: the rows may be stored. */
  | 'lost'
  /** A damaged page, an I/O error or an internal error: the same rows fail again. */
  | 'broken'
  /** The data of a row breaks a rule. */
  | 'refused'

/** A failure of a statement, and so of all its rows. */
export interface WriteFailure {
  readonly error: Error
  readonly kind: FailureKind
}

/** Why the database has decided nothing about a row, and whether the row may be stored; for logs. */
export const reasons = {
  full: 'the expected wait is too long; the row was not tried',
  closed: 'the service is closing; the row was not tried',
  databaseDown: 'the database has been down for a whole deadline; the row was not tried',
  expired: 'the deadline has passed; the row is not stored',
  unknown: 'the outcome of an attempt is unknown; the row may be stored',
  missing:
    'the row was neither written nor found: a trigger returns null, array_nulls is off, or the look-up failed, as the cause says'
} as const

/** Rejects a row that the database has not decided. The cause is the row's last failure, if it had one. */
export class NotCommitted extends StacklessError {
  override readonly name = 'NotCommitted'
  readonly reason: keyof typeof reasons

  constructor(reason: keyof typeof reasons, cause?: unknown) {
    super(reasons[reason], cause)
    this.reason = reason
  }
}
