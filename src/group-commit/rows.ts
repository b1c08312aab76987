/** The rows that wait for their answer: how many, how large, and until when. */
import { List, type Place } from './list.ts'
import type { AttemptRow, Clock, Item } from './types.ts'

/** A submitted item with its caller, its deadline and its place. */
export class Row<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  readonly deadline: number
  readonly resolve: (result: R) => void
  readonly reject: (error: unknown) => void
  /** `done` has its answer, though an attempt may still have it. */
  state: 'waiting' | 'trying' | 'resting' | 'done' = 'waiting'
  mayBeStored = false
  /** How many rows it may be tried with; fewer than any batch has make it a suspect. */
  company = Number.POSITIVE_INFINITY
  /** It is a canary that may take long. */
  hasTime = false
  /** How often something had been written when the attempt began that it has failed in first. */
  failedSince: number | undefined = undefined
  /** How often chance has failed it, it was missing, and it has rested. */
  repeats = 0
  misses = 0
  rests = 0
  /** Its last error. */
  cause: unknown = undefined
  /** The attempt that it is in. */
  attempt: Attempt | undefined = undefined
  endRest: () => void = () => {}
  /** The next of its id, and the last one if it is the first. */
  next: Row<T, R> | undefined = undefined
  last: Row<T, R> = this
  /** Its place among the rows that wait for a lane, and among all. */
  inQueue: Place<Row<T, R>> | undefined = undefined
  inOrder: Place<Row<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: (result: R) => void, reject: (error: unknown) => void) {
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }
}

/** An attempt, given up when none of its rows is waited for any more. */
export interface Attempt {
  waiting: number
  giveUp(): void
}

/**
 * Makes an empty list; all rows in it wait equally long. When the deadlines of some have passed, `onExpired` is called
 * for each, and has to settle it, then `onEnd` once.
 */
export function createPendingRows<T extends Item, R>(
  deadlineMs: number,
  clock: Clock,
  onExpired: (row: Row<T, R>) => void,
  onEnd: () => void
) {
  /** In order of arrival, and so in order of their deadlines: one timer, for the first, is enough. */
  const list = new List<Row<T, R>>()
  let rows = 0
  let bytes = 0
  let cancelDeadline: (() => void) | undefined

  /** The answers that have reached the process by now count: after a standstill they are read after the timers. */
  function expireSoon() {
    clock.afterPoll(expire)
  }

  function expire() {
    cancelDeadline = undefined
    const now = clock.now()
    for (let row = list.first; row; row = list.first) {
      if (row.deadline > now) {
        cancelDeadline = clock.after(row.deadline - now, expireSoon)
        break
      }
      onExpired(row)
    }
    onEnd()
  }

  return {
    get rows() {
      return rows
    },
    get bytes() {
      return bytes
    },

    /** Takes in a row that has just arrived. */
    add(row: Row<T, R>) {
      row.inOrder = list.push(row)
      rows++
      bytes += row.item.bytes
      cancelDeadline ??= clock.after(deadlineMs, expireSoon)
    },

    /** Takes out a row that gets its answer now. */
    settle(row: Row<T, R>) {
      row.state = 'done'
      list.remove(row.inOrder as Place<Row<T, R>>)
      rows--
      bytes -= row.item.bytes
    },

    /** Ends the timer, once there are no rows any more. */
    stop() {
      cancelDeadline?.()
    }
  }
}
