/** What group commit takes and reports: items, the store that writes them, limits, and attempts. */
import type { FailureKind, WriteFailure } from '../shared/write-failure.ts'

/** What a caller submits; the store gets it unchanged. */
export interface Item {
  /** Two items with one id are never written at the same time. */
  readonly id: bigint
  /** What it counts for in the byte limits. */
  readonly bytes: number
  /** Rows that have failed take turns by their callers. */
  readonly caller?: string
  /** Its caller's part of all that waits, 0 to 1. */
  readonly portion?: number
}

/** An item in an attempt. */
export interface AttemptRow<T extends Item> {
  readonly item: T
  /** An earlier attempt may have stored it. */
  readonly mayBeStored: boolean
}

/** The outcome of an attempt. */
export interface Written<R> {
  /** For each row in order the caller's result, the caller's error, or undefined: nothing was written, or found. */
  readonly results: readonly (R | Error | undefined)[]
  /** Why the attempt has no results. */
  readonly failure?: WriteFailure
}

/**
 * What the rows are written to. Its methods for rows, sorted by id, never reject. When nobody waits for an attempt any
 * more, or it takes too long, the signal aborts, and the promise must settle soon after: the lane stays taken until
 * then, so that abandoned attempts do not pile up.
 */
export interface Store<T extends Item, R> {
  /** Inserts the rows whose ids are free, in one durable transaction; a lock is waited for `lockMs` at most. */
  insert(rows: readonly AttemptRow<T>[], lockMs: number, signal: AbortSignal): Promise<Written<R>>
  /** Finds out what the ids of the rows have; what it finds is as durable as what `insert` has written. */
  find(rows: readonly AttemptRow<T>[], signal: AbortSignal): Promise<Written<R>>
  /** Resolves when it has committed something that needs all that `insert` needs, but no row; settles in bounded time. */
  commit(): Promise<unknown>
  /** Resolves when the database serves again, rejects when it does not; settles in bounded time either way. */
  probe(): Promise<unknown>
}

/** Integers from 1; lanes are attempts at the same time. */
export interface Limits {
  readonly lanes: number
  readonly batchRows: number
  /** A single row may be larger: it goes alone. */
  readonly batchBytes: number
  /** How long a row waits for its outcome. */
  readonly deadlineMs: number
}

/** One attempt, as it ended: an insert, a look-up, or why either has failed. */
export interface AttemptReport {
  readonly rows: number
  readonly ms: number
  readonly outcome: 'written' | 'found' | FailureKind
}
