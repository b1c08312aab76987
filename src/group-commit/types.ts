/** What group commit takes: items, the store that writes them, and limits. */

/** What is submitted; the store gets it unchanged. */
export interface Item {
  /** What its row is identified by. */
  readonly id: bigint
  /** How many bytes it counts as in the byte limits. */
  readonly bytes: number
}

/** Why a statement has failed, for all its rows or, in a careful call, for one. */
export type FailureKind =
  /** The database is unavailable for any row, and stored nothing: no connection, a read-only server, a full disk, a locked table. */
  | 'unavailable'
  /** A table, a column, a function or a right is missing, for every row. */
  | 'schemaMismatch'
  /** A row's lock, a time limit, a deadlock or too few resources: the same rows may succeed later. */
  | 'retryable'
  /** There is no verdict, as after a lost connection: the rows may be stored. */
  | 'unknown'
  /** A damaged page, an I/O error or an internal error: the same rows fail again. */
  | 'serverFault'
  /** The data of a row breaks a rule. */
  | 'refused'

/** Why an attempt has failed as a whole. */
export interface Verdict {
  readonly kind: FailureKind
  readonly error: Error
}

/** Why a row of a careful call was not written: also because it took too long, or because the call ended before its turn. */
export type RowVerdict = Verdict | { readonly kind: 'slow' | 'untried'; readonly error?: Error }

/** For each row in order the caller's result, the caller's error, a verdict, or undefined: neither written nor found. */
export type Results<R> = readonly (R | Error | RowVerdict | undefined)[]

/**
 * Tries rows, which are sorted by id; an earlier attempt may have stored one that is `mayBeStored`. It never rejects: it ends
 * with the results of its rows, or with a verdict for all, within two thirds of the deadline and two seconds, and soon after its
 * signal aborts. Its lane stays taken until it does.
 */
export type Attempt<T extends Item, R> = (
  rows: readonly { readonly item: T; readonly mayBeStored: boolean }[],
  limitMs: number,
  signal: AbortSignal
) => Promise<Results<R> | Verdict>

/** What the rows are written to. */
export interface Store<T extends Item, R> {
  /** Inserts the rows whose ids are free, in one durable transaction. The limit is for its wait for the lock of a row. */
  readonly insert: Attempt<T, R>
  /** Inserts them one by one, in one durable transaction that keeps what succeeds. The limit is for all. */
  readonly insertEach: Attempt<T, R>
  /** Looks the ids of the rows up; what it finds is as durable as what an insert has written. It needs no limit. */
  readonly find: Attempt<T, R>
  /** Commits a transaction without a row that needs all that `insert` needs. Returns why it could not. */
  readonly probe: () => Promise<Verdict | undefined>
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
