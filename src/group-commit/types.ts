/** What group commit takes and reports: items, the store that writes them, limits, and reports of attempts. */

/** What is submitted; the store gets it unchanged. */
export interface Item {
  /** Two items with one id are never written at the same time. */
  readonly id: bigint
  /** How many bytes it counts as in the byte limits. */
  readonly bytes: number
}

/** An item in an attempt. */
export interface AttemptRow<T extends Item> {
  readonly item: T
  /** An earlier attempt may have stored it. */
  readonly mayBeStored: boolean
}

/** Why a statement has failed for all its rows. */
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

/** A failure of a statement. */
export interface WriteFailure {
  readonly error: Error
  readonly kind: FailureKind
}

/** Why a careful call has not stored a row: as above; it took too long; or the call has ended before it. */
export interface Verdict {
  readonly verdict: 'refused' | 'broken' | 'busy' | 'slow' | 'untried'
  readonly error?: Error
}

/** For each row in order the caller's result, the caller's error, a verdict, or undefined: neither written nor found. */
export type Results<R> = readonly (R | Error | Verdict | undefined)[]

/** How an attempt ended: with a result for each row, or with the failure of all. */
export type AttemptEnd<R> =
  | { readonly results: Results<R>; readonly failure?: undefined }
  | { readonly results?: undefined; readonly failure: WriteFailure }

/**
 * What the rows are written to. It gets rows sorted by id, and never rejects. Each attempt ends within two thirds of the
 * deadline, and soon after its signal aborts. Its lane stays taken until it does, so that abandoned attempts do not pile up.
 */
export interface Store<T extends Item, R> {
  /** Inserts the rows whose ids are free, in one durable transaction; waits for a lock for `lockMs` at most. */
  insert(rows: readonly AttemptRow<T>[], lockMs: number, signal: AbortSignal): Promise<AttemptEnd<R>>
  /** Inserts them one by one for `limitMs` at most, in one durable transaction that keeps what succeeds. */
  insertEach(rows: readonly AttemptRow<T>[], limitMs: number, signal: AbortSignal): Promise<AttemptEnd<R>>
  /** Looks the ids of the rows up; what it finds is as durable as what an insert has written. */
  find(rows: readonly AttemptRow<T>[], signal: AbortSignal): Promise<AttemptEnd<R>>
  /** Commits a transaction without a row that needs all that `insert` needs. */
  probe(): Promise<AttemptEnd<never>>
}

/** Limits of group commit, integers from 1. */
export interface Limits {
  /** How many batches are written together at the same time. */
  readonly lanes: number
  /** The most rows of a batch, and its most bytes. A single row may be larger: it goes alone. */
  readonly batchRows: number
  readonly batchBytes: number
  /** How long a row waits for its outcome. */
  readonly deadlineMs: number
}

/** A report of an attempt that has ended: whether it was an insert or a look-up that succeeded, or why it has failed. */
export interface AttemptReport {
  readonly rows: number
  readonly ms: number
  readonly outcome: 'written' | 'found' | FailureKind
}
