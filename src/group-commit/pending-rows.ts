/** The rows that wait for their answer: how many, how large, and until when. */

import { List, type Place } from './list.ts'
import type { PendingRow } from './pending-row.ts'
import type { Clock, Item } from './types.ts'

/**
 * Makes an empty list; all rows in it wait equally long. When the deadlines of some have passed, `onExpired` is called
 * for each, and has to settle it, then `onEnd` once.
 */
export function createPendingRows<T extends Item, R>(
  deadlineMs: number,
  clock: Clock,
  onExpired: (entry: PendingRow<T, R>) => void,
  onEnd: () => void
) {
  /** In order of arrival, and so in order of their deadlines: one timer, for the first, is enough. */
  const list = new List<PendingRow<T, R>>()
  let rows = 0
  let bytes = 0
  let cancelDeadline: (() => void) | undefined

  /** The answers that have reached the process by now count: after a standstill they are read behind the timers. */
  function expireSoon() {
    clock.afterPoll(expire)
  }

  function expire() {
    cancelDeadline = undefined
    const now = clock.now()
    for (let entry = list.first; entry; entry = list.first) {
      if (entry.deadline > now) {
        cancelDeadline = clock.after(entry.deadline - now, expireSoon)
        break
      }
      onExpired(entry)
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
    add(entry: PendingRow<T, R>) {
      entry.inOrder = list.push(entry)
      rows++
      bytes += entry.item.bytes
      cancelDeadline ??= clock.after(deadlineMs, expireSoon)
    },

    /** Takes out a row that gets its answer now. */
    settle(entry: PendingRow<T, R>) {
      entry.isSettled = true
      list.remove(entry.inOrder as Place<PendingRow<T, R>>)
      rows--
      bytes -= entry.item.bytes
    },

    /** Ends the timer, once there are no rows any more. */
    stop() {
      cancelDeadline?.()
    }
  }
}
