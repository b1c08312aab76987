/** Why a write has failed: what the database says of it, and group commit acts on. */

/** Each is a line of the table in docs/architecture.md. */
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
