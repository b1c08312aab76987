/** What group commit takes and gives: items, the store that writes them, limits, and answers that are no result. */
import { StacklessError } from '../failures/stackless-error.ts'

/** What a caller hands in; the store gets it back as it is. */
export interface Item {
  /** Two items with one id are never written at the same time. */
  readonly id: bigint
  /** Its share of the byte limits. */
  readonly bytes: number
}

/** An item in an attempt. */
export interface AttemptRow<T extends Item> {
  readonly item: T
  /** An earlier attempt may have written it: only a statement that knows its own write again may repeat it. */
  readonly repeated: boolean
}

/** The outcome of a row that the store has not written now, nor found another's in its place: it is tried again. */
export const missing = Symbol('missing')

/**
 * What the failure of a whole attempt means for its rows. `transient`: the database cannot serve now, nothing is
 * written; `uncertain`: the same, and whether the rows are written is open; `locked`: a lock was not to be had, nothing
 * is written; `slow`: it took too long, nothing is written; `refused`: the data is at fault, nothing is written;
 * `fatal`: something is broken, and only what an earlier attempt may have written is tried again.
 */
export type WriteFailure = 'transient' | 'uncertain' | 'locked' | 'slow' | 'refused' | 'fatal'

/** What the rows are written to. */
export interface Store<T extends Item, R> {
  /**
   * Writes the rows, sorted by id, in one durable transaction. Gives one outcome for each row in the same order: the
   * caller's result, the caller's error (an instance of Error), or `missing`. Rejects when the whole attempt failed.
   * When nobody waits for the attempt any more, or it takes too long for what it writes, the signal aborts, and the
   * promise must settle soon after: the lane stays taken until then, so that abandoned attempts do not pile up.
   */
  write(rows: readonly AttemptRow<T>[], signal: AbortSignal): Promise<readonly (R | Error | typeof missing)[]>
  /** Says what a rejection of `write` means. */
  classify(error: unknown): WriteFailure
  /** Says of a rejection that is transient or fatal whether a single row can be what causes it. */
  mayBeOneRows(error: unknown): boolean
  /** Resolves when the database serves again, rejects when it does not; settles in bounded time either way. */
  probe(): Promise<unknown>
}

/** Integers from 1. */
export interface Limits {
  /** Attempts at the same time. */
  readonly lanes: number
  readonly batchRows: number
  /** A single row may be larger: it goes alone. */
  readonly batchBytes: number
  /** How long a row waits for its answer. */
  readonly deadlineMs: number
}

/** One attempt, as it ended. */
export interface Batch {
  readonly rows: number
  readonly ms: number
  readonly outcome: 'written' | WriteFailure
}

/** The time and the chance that tests replace. */
export interface Clock {
  /** In ms, never going back. */
  now(): number
  /** From 0 up to 1. */
  random(): number
  /** Calls back once, when what has reached the process by now is read. */
  afterPoll(callback: () => void): void
  /** Calls back once after `ms`, unless what it gives is called before. */
  after(ms: number, callback: () => void): () => void
}

/** Why a row got no answer from the store, and whether it may be stored. */
export const reasons = {
  full: 'the rows that wait will take too long; the row was not tried',
  closed: 'the service is closing; the row was not tried',
  databaseDown: 'the database has been down for long; the row was not tried',
  expired: 'the deadline has passed; the row is not stored',
  unknown: 'the outcome of an attempt is open; the row may be stored',
  missing: 'the row is not written, however often it is tried'
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
