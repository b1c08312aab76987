/** What group commit takes and reports: items, the store that writes them, limits, and reports of attempts. */
import type { FailureKind, WriteFailure } from './write-failure.ts'

/** What is submitted; the store gets it unchanged. */
export interface Item {
  /** Two items with one id are never written at the same time. */
  readonly id: bigint
  /** How many bytes it counts as in the byte limits. */
  readonly bytes: number
  /** Rows that have failed take turns by their callers. */
  readonly caller?: string
  /** Its caller's part of all that waits, 0 to 1; without it, all. */
  readonly portion?: number
}

/** An item in an attempt. */
export interface AttemptRow<T extends Item> {
  readonly item: T
  /** An earlier attempt may have stored it. */
  readonly mayBeStored: boolean
}

/** For each row in order the caller's result, the caller's error, or undefined: nothing was written, or found. */
export type Results<R> = readonly (R | Error | undefined)[]

/** How an attempt ended: with a result for each row, or with the failure of all. */
export type AttemptEnd<R> =
  | { readonly results: Results<R>; readonly failure?: undefined }
  | { readonly results?: undefined; readonly failure: WriteFailure }

/**
 * What the rows are written to. `insert` and `find` get rows sorted by id, and never reject. The signal aborts when nobody
 * waits for the attempt any more, or it takes too long. Then the promise must settle soon: the lane stays taken until it does,
 * so that abandoned attempts do not pile up.
 */
export interface Store<T extends Item, R> {
  /** Inserts the rows whose ids are free, in one durable transaction; waits for a lock for `lockMs` at most. */
  insert(rows: readonly AttemptRow<T>[], lockMs: number, signal: AbortSignal): Promise<AttemptEnd<R>>
  /** Looks the ids of the rows up; what it finds is as durable as what `insert` has written. */
  find(rows: readonly AttemptRow<T>[], signal: AbortSignal): Promise<AttemptEnd<R>>
  /** Commits a transaction without a row that needs all that `insert` needs; settles in bounded time. */
  commitNothing(): Promise<unknown>
  /** Resolves when the database serves again, rejects when it does not; settles in bounded time either way. */
  probe(): Promise<unknown>
}

/** Limits of group commit, integers from 1. */
export interface Limits {
  /** How many attempts run at the same time. */
  readonly lanes: number
  /** The most rows of a batch. */
  readonly batchRows: number
  /** The most bytes of a batch. A single row may be larger: it goes alone. */
  readonly batchBytes: number
  /** How long a row waits for its outcome. */
  readonly deadlineMs: number
}

/** A report of an attempt that has ended. */
export interface AttemptReport {
  readonly rows: number
  readonly ms: number
  /** Whether it was an insert or a look-up that succeeded, or why it has failed. */
  readonly outcome: 'written' | 'found' | FailureKind
}
