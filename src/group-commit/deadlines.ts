/** The deadlines of the rows that wait for their outcome, and how many rows and bytes wait. */
import assert from 'node:assert'
import type { Clock } from './clock.ts'
import { List } from './list.ts'
import type { DeadlineLink, Row } from './row.ts'
import type { Item } from './types.ts'

/** All rows that wait for their outcome. */
export interface Deadlines<T extends Item, R> {
  /** How many rows wait for their outcome. */
  readonly rows: number
  /** Their bytes. */
  readonly bytes: number
  /** Adds a new row. */
  add(row: Row<T, R>): void
  /** Removes a row that gets its outcome. */
  remove(row: Row<T, R>): void
  /** Stops the timer; call it when no row waits. */
  stop(): void
}

/** Makes an empty list. When deadlines pass, `onExpired` has to remove each row; then `onEnd` is called. */
export function createDeadlines<T extends Item, R>(
  deadlineMs: number,
  clock: Clock,
  onExpired: (row: Row<T, R>) => void,
  onEnd: () => void
): Deadlines<T, R> {
  /** In the order of arrival, and so of their deadlines: one timer, for the first row, is enough. */
  const links = new List<DeadlineLink<T, R>>()
  let cancel: (() => void) | undefined

  /** After a standstill, Node rings the timers before it reads results that have arrived in time. Those are read first. */
  function expireSoon() {
    clock.afterPoll(expire)
  }

  function expire() {
    cancel = undefined
    const now = clock.now()
    for (let link = links.first; link; link = links.first) {
      const { row } = link
      if (row.deadline > now) {
        cancel = clock.after(row.deadline - now, expireSoon)
        break
      }
      onExpired(row)
      assert(links.first !== link, 'a row that has expired is removed')
    }
    onEnd()
  }

  const waiting = {
    rows: 0,
    bytes: 0,

    add(row: Row<T, R>) {
      links.push(row.deadlineLink)
      waiting.rows++
      waiting.bytes += row.item.bytes
      cancel ??= clock.after(deadlineMs, expireSoon)
    },

    remove(row: Row<T, R>) {
      row.deadlineLink.unlink()
      waiting.rows--
      waiting.bytes -= row.item.bytes
    },

    stop() {
      cancel?.()
    }
  }
  return waiting
}
