/** The deadlines of the rows that wait for their outcome, and how many rows and bytes wait. */
import type { Clock } from '../shared/clock.ts'
import { List } from '../shared/list.ts'
import type { Place, Row } from './row.ts'
import type { Item } from './types.ts'

/** Makes an empty list. When deadlines pass, `onExpired` has to settle each row, then `onEnd` is called. */
export function createDeadlines<T extends Item, R>(
  deadlineMs: number,
  clock: Clock,
  onExpired: (row: Row<T, R>) => void,
  onEnd: () => void
) {
  /** In order of arrival, and so in order of their deadlines: one timer, for the first, is enough. */
  const places = new List<Place<T, R>>()
  let cancel: (() => void) | undefined

  /** Results that have reached the process by now are in time: after a standstill they are read only after the timers. */
  function expireSoon() {
    clock.afterPoll(expire)
  }

  function expire() {
    cancel = undefined
    const now = clock.now()
    for (let place = places.first; place; place = places.first) {
      const { row } = place
      if (row.deadline > now) {
        cancel = clock.after(row.deadline - now, expireSoon)
        break
      }
      onExpired(row)
    }
    onEnd()
  }

  const waiting = {
    rows: 0,
    bytes: 0,

    add(row: Row<T, R>) {
      places.push(row.place)
      waiting.rows++
      waiting.bytes += row.item.bytes
      cancel ??= clock.after(deadlineMs, expireSoon)
    },

    /** Removes a row whose caller gets the outcome. */
    remove(row: Row<T, R>) {
      row.place.unlink()
      waiting.rows--
      waiting.bytes -= row.item.bytes
    },

    stop() {
      cancel?.()
    }
  }
  return waiting
}

export type Deadlines<T extends Item, R> = ReturnType<typeof createDeadlines<T, R>>
