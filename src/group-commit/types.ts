/** What group commit takes and returns: items, the store that writes them, limits, and why a row has no result. */
import { StacklessError } from '../failures/failure.ts'

/** What a caller submits; the store gets it unchanged. */
export interface Item {
  /** Two items with one id are never written at the same time. */
  readonly id: bigint
  /** What it counts for in the byte limits. */
  readonly bytes: number
  /** Its caller's part of all that waits, 0 to 1. */
  readonly portion?: number
}

/** An item in an attempt. */
export interface AttemptRow<T extends Item> {
  readonly item: T
  /** An earlier attempt may have stored it. */
  readonly mayBeStored: boolean
}

/** Why an attempt, or a part of it, is undecided. */
export interface WriteFailure {
  readonly error: unknown
  /** Whether the attempt may have stored the rows all the same. */
  readonly written: 'no' | 'maybe'
  /** Whose failure it is: the database's and so every row's, that of one or some of these rows, or either. */
  readonly whose: 'database' | 'row' | 'unclear'
  /** When the same rows may succeed: at once, since it was chance; later, when an obstacle has gone; never. */
  readonly again: 'now' | 'later' | 'never'
}

/** The outcome of an attempt for each of its rows. */
export interface Written<R> {
  /** For each row in order the caller's result, the caller's error, or undefined; it may be shorter than the rows. */
  readonly results: readonly (R | Error | undefined)[]
  /** Why results are undefined. Without a failure, their rows were neither written nor conflict with another row. */
  readonly failure?: WriteFailure
}

/** What the rows are written to. */
export interface Store<T extends Item, R> {
  /**
   * Writes the rows, sorted by id, in one durable transaction; never rejects. When nobody waits for the attempt any
   * more, or it takes too long, the signal aborts, and the promise must settle soon after: the lane stays taken until
   * then, so that abandoned attempts do not pile up.
   */
  write(rows: readonly AttemptRow<T>[], signal: AbortSignal): Promise<Written<R>>
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

/** One attempt, as it ended: written, or whose failure it was; unknown where the rows may be stored. */
export interface AttemptReport {
  readonly rows: number
  readonly ms: number
  readonly outcome: 'written' | WriteFailure['whose'] | 'unknown'
}

/** Time, in ms and never going back, and chance, from 0 up to 1, which tests replace. */
export interface Clock {
  now(): number
  random(): number
  /** Calls back once, after what has reached the process by now was read. */
  afterPoll(callback: () => void): void
  /** Calls back once after `ms`, unless the function that it returns is called before. */
  after(ms: number, callback: () => void): () => void
}

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  random: Math.random,
  afterPoll: setImmediate,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  }
}

/** Why the store decided nothing about a row, and whether the row may be stored. */
export const reasons = {
  full: 'the rows that wait will take too long; the row was not tried',
  closed: 'the service is closing; the row was not tried',
  databaseDown: 'the database has been down for long; the row was not tried',
  expired: 'the deadline has passed; the row is not stored',
  unknown: 'the outcome of an attempt is open; the row may be stored',
  missing:
    'the row is not written, however often it is tried: by a trigger that returns null, or with array_nulls off'
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
