/** Why a write has failed: what the database says of it, and group commit acts on; and why a row has no outcome. */
import { StacklessError } from './stackless-error.ts'

/** What comes next after each: ../group-commit/table.ts. */
export type FailureKind =
  /** Nothing was sent or kept, whatever the rows: no connection, a read-only server, a full disk, a locked table. */
  | 'away'
  /** A table, a column, a function or a right is missing, for every row. */
  | 'gone'
  /** A serialization failure or a deadlock: the same rows may succeed at once. */
  | 'chance'
  /** A row's lock, a time limit, too few resources: the same row may succeed later. */
  | 'busy'
  /** There is no verdict, and the rows may be stored. */
  | 'lost'
  /** A damaged page, an I/O error, an internal error: the same row fails again. */
  | 'broken'
  /** The data of a row breaks a rule. */
  | 'refused'

/** A failure of a statement, and so of all its rows. */
export interface WriteFailure {
  readonly error: Error
  readonly kind: FailureKind
}

/** Why the store decided nothing about a row, and whether the row may be stored. */
export const reasons = {
  full: 'the rows that wait will take too long; the row was not tried',
  closed: 'the service is closing; the row was not tried',
  databaseDown: 'the database has been down for long; the row was not tried',
  expired: 'the deadline has passed; the row is not stored',
  unknown: 'the outcome of an attempt is open; the row may be stored',
  missing:
    'the row is neither written nor found: a trigger returns null, array_nulls is off, or the look-up fails for the cause'
} as const

/** Rejects a submission that the store has not decided; the cause is the row's last failure, where it had one. */
export class NotCommitted extends StacklessError {
  override readonly name = 'NotCommitted'
  readonly reason: keyof typeof reasons

  constructor(reason: keyof typeof reasons, cause?: unknown) {
    super(reasons[reason], cause)
    this.reason = reason
  }
}
