/** The rows that wait for their outcome: how many, how large, and until when. */
import { List, type Place } from './list.ts'
import type { AttemptRow, Clock, Item } from './types.ts'

/** A submitted item with its callbacks, its deadline and its places in the lists. */
export class Row<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  readonly deadline: number
  readonly resolve: (result: R, rows: number) => void
  readonly reject: (error: unknown, rows?: number) => void
  /** `done`: its caller has the outcome, though an attempt may still hold the row. */
  state: 'waiting' | 'trying' | 'resting' | 'done' = 'waiting'
  mayBeStored = false
  /** How many rows a batch with it may have. Less than the largest batch makes it a suspect. */
  company = Number.POSITIVE_INFINITY
  /** It is a canary with more time. */
  hasTime = false
  /** Its first attempt that failed. */
  failed: Attempt | undefined = undefined
  /** How often it failed by chance, was missing, and rested. */
  repeats = 0
  misses = 0
  rests = 0
  /** Its last error. */
  cause: unknown = undefined
  /** The attempt that it is in. */
  attempt: Attempt | undefined = undefined
  endRest: () => void = () => {}
  /** The next row of its id; and the last one, if this is the first. */
  next: Row<T, R> | undefined = undefined
  last: Row<T, R> = this
  /** Its place among the rows that wait for a lane, and among all. */
  inQueue: Place<Row<T, R>> | undefined = undefined
  inOrder: Place<Row<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']) {
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }
}

/** An attempt, given up when no caller waits for any of its rows. */
export interface Attempt {
  readonly rows: number
  waiting: number
  giveUp(): void
  /** When it began, in ms of the clock and by the evidence. */
  readonly began: number
  readonly since: number
}

/**
 * Makes an empty list, whose rows all have the same time. When the deadlines of some have passed, it calls `onExpired`
 * for each, which has to settle it, then `onEnd` once.
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

  /** Results that have reached the process by now are in time: after a standstill they are read only after the timers. */
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

    /** Adds a row that has just arrived. */
    add(row: Row<T, R>) {
      row.inOrder = list.push(row)
      rows++
      bytes += row.item.bytes
      cancelDeadline ??= clock.after(deadlineMs, expireSoon)
    },

    /** Removes a row whose caller gets the outcome now. */
    settle(row: Row<T, R>) {
      row.state = 'done'
      list.remove(row.inOrder as Place<Row<T, R>>)
      rows--
      bytes -= row.item.bytes
    },

    /** Stops the timer; call it when there are no more rows. */
    stop() {
      cancelDeadline?.()
    }
  }
}
