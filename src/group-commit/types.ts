/** What group commit works with: items, the store that writes them, results of attempts, limits. */

/** What is submitted. The store gets it unchanged. */
export interface Item {
  /** The id of the item's row. */
  readonly id: bigint
  /** How many bytes the item counts for in the byte limits. */
  readonly bytes: number
}

/**
 * Why a statement has failed: for all of its rows or, in an attempt with savepoints, for one row.
 */
export type FailureKind =
  /**
   * The database serves no row, and has stored nothing: there is no connection, the server is
   * read-only, its disk is full, or the table is locked.
   */
  | 'unavailable'
  /** A table, a column, a function or a right is missing. Every row fails. */
  | 'schemaMismatch'
  /** A lock, a time limit, a deadlock or a lack of memory. The same rows may succeed later. */
  | 'retryable'
  /** The result never arrived, for example because the connection broke. The rows may be stored. */
  | 'unknown'
  /**
   * A damaged page, an I/O error or a bug of the server; or an error that can also be the data's,
   * such as a null in a column. The same rows fail again. Group commit treats it as `refused`; the
   * metric of attempts tells operators which it is. Like that of `refused`, its error decides what
   * the client is told (`toCreateFailure` of plants/repository.ts).
   */
  | 'serverFault'
  /** The data of a row breaks a rule. This kind does not decide what its client is told. */
  | 'refused'

/** Why an attempt has failed as a whole. */
export interface AttemptFailure {
  readonly kind: FailureKind
  readonly error: Error
}

/**
 * Why one row of an attempt with savepoints was not written. A row is `slow` if it reached the time
 * limit, and `untried` if the attempt ended before the row's turn.
 */
export type RowFailure =
  | AttemptFailure
  | { readonly kind: 'slow' | 'untried'; readonly error?: Error }

/**
 * The result of each row, in the order of the rows: the outcome of its write (a value or an Error
 * of the store), why the row failed, or undefined if the row was neither written nor found.
 */
export type RowResults<R> = readonly (R | Error | RowFailure | undefined)[]

/**
 * Tries rows, which are sorted by id. A row that is `mayBeStored` may have been stored by an
 * earlier attempt. The promise never rejects: it resolves with one result for each row, or with a
 * failure of the whole attempt. It must do so within two thirds of the deadline plus two seconds (a
 * third to get a session, a third to run, two seconds to cancel: database/session.ts), and soon
 * after the signal aborts, because the attempt holds its lane until then.
 */
export type Attempt<T extends Item, R> = (
  rows: readonly { readonly item: T; readonly mayBeStored: boolean }[],
  limitMs: number,
  signal: AbortSignal
) => Promise<RowResults<R> | AttemptFailure>

/** Where the rows are written. */
export interface Store<T extends Item, R> {
  /**
   * Inserts the rows whose ids are free, in one durable transaction. The limit is for how long the
   * transaction waits for the lock of a row.
   */
  readonly insert: Attempt<T, R>
  /**
   * Inserts the rows one after the other, each behind a savepoint, in one durable transaction that
   * keeps those that succeed. The limit is for all rows together.
   */
  readonly insertEach: Attempt<T, R>
  /**
   * Looks up the ids of the rows. A row that it finds is as durable as one that an insert has
   * written. It ignores the limit.
   */
  readonly find: Attempt<T, R>
  /**
   * Commits a transaction that needs all that `insert` needs, but inserts no row. Resolves with why
   * that failed, or with undefined.
   */
  readonly probe: () => Promise<AttemptFailure | undefined>
}

/** Limits of group commit, integers from 1. */
export interface Limits {
  /** How many batches may be written at the same time. */
  readonly lanes: number
  /**
   * The most rows in a batch, and the most bytes. One row may be larger: it is a batch by itself.
   */
  readonly batchRows: number
  readonly batchBytes: number
  /** How long a row waits for its outcome. */
  readonly deadlineMs: number
}
