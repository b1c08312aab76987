/** A row inside group commit. */
import type { Place } from './list.ts'
import type { AttemptRow, Item } from './types.ts'

/** A submitted item with its caller's promise, its deadline and its place. */
export class PendingRow<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  readonly deadline: number
  readonly resolve: (result: R) => void
  readonly reject: (error: unknown) => void
  repeated = false
  isSettled = false
  /** Its own failures so far: how often it was locked or missing, the last error, and the pause that it is in. */
  pauses = 0
  misses = 0
  cause: unknown = undefined
  endPause: (() => void) | undefined = undefined
  /** The attempt, or the pause of several rows, that it is in. */
  assignment: Assignment | undefined = undefined
  /** It has held up a batch, or follows one that has: it goes alone. */
  suspect = false
  /** The next of its id, and the last one if it is the first. */
  next: PendingRow<T, R> | undefined = undefined
  last: PendingRow<T, R> = this
  /** Its place among the rows that wait for a lane, and among the pending rows. */
  inLine: Place<PendingRow<T, R>> | undefined = undefined
  inOrder: Place<PendingRow<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: (result: R) => void, reject: (error: unknown) => void) {
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }
}

/** What is done with some rows, given up when none of them is waited for any more. */
export interface Assignment {
  readonly isAttempt: boolean
  waiting: number
  giveUp(): void
}

/** Tells whether a row still waits for its answer. */
export const isPending = ({ isSettled }: { isSettled: boolean }) => !isSettled
