/** The rows that wait for a lane: in order of arrival, one of an id at a time, suspects apart. */
import type { Entry } from './entry.ts'
import { List } from './list.ts'
import type { Item, Limits } from './types.ts'

/**
 * Makes an empty queue. Each operation takes constant time, `take` time for what it gives. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait behind it, outside the lines.
 */
export function createQueue<T extends Item, R>({
  batchRows,
  batchBytes
}: Pick<Limits, 'batchRows' | 'batchBytes'>) {
  let holders = new Map<bigint, Entry<T, R>>()
  const line = new List<Entry<T, R>>()
  const suspects = new List<Entry<T, R>>()
  let suspectInLane: Entry<T, R> | undefined
  let suspectWasLast = false
  let addedToMap = 0

  function enter(entry: Entry<T, R>) {
    const to = entry.suspect ? suspects : line
    entry.inLine = to.push(entry)
  }

  /** Ends the hold of a row on its id: the next of that id enters. */
  function release(entry: Entry<T, R>) {
    const { next } = entry
    leave(entry)
    if (next === undefined) {
      holders.delete(entry.item.id)
      return
    }
    holders.set(entry.item.id, next)
    next.last = entry.last
    entry.next = undefined
    entry.last = entry
    next.suspect = entry.suspect
    enter(next)
  }

  /** Ends a row's time in a lane. */
  function leave(entry: Entry<T, R>) {
    if (suspectInLane === entry) suspectInLane = undefined
  }

  /**
   * A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every later one
   * and the rows in it outlive the minor garbage collections (they took 30 times longer). A new Map has no such chain.
   */
  function renewMap() {
    holders = new Map(holders)
    addedToMap = 0
  }

  function leaveLine(entry: Entry<T, R>) {
    if (!entry.inLine) return
    entry.inLine.list.remove(entry.inLine)
    entry.inLine = undefined
  }

  function takeSuspect() {
    // One at a time and in turn with the others: waiting for locks must not take every lane.
    if (suspectInLane !== undefined || (suspectWasLast && line.first)) return undefined
    suspectInLane = suspects.first
    return suspectInLane
  }

  return {
    enter,
    leave,
    release,

    /** Takes a new row in. */
    add(entry: Entry<T, R>) {
      const holder = holders.get(entry.item.id)
      if (holder === undefined) {
        if (++addedToMap > 1024 + 4 * holders.size) renewMap()
        holders.set(entry.item.id, entry)
        enter(entry)
      } else {
        holder.last.next = entry
        holder.last = entry
      }
    },

    /** Takes out a row that has expired and is in no attempt. Rows of one id expire in order. */
    withdraw(entry: Entry<T, R>) {
      const holder = holders.get(entry.item.id) as Entry<T, R>
      if (holder === entry) {
        leaveLine(entry)
        release(entry)
      } else {
        holder.next = entry.next
        if (holder.last === entry) holder.last = holder
      }
    },

    /** Takes the next batch out, sorted by id, or gives undefined. */
    take(): Entry<T, R>[] | undefined {
      const suspect = takeSuspect()
      suspectWasLast = suspect !== undefined
      if (suspect) {
        leaveLine(suspect)
        return [suspect]
      }
      const batch: Entry<T, R>[] = []
      let bytes = 0
      for (let entry = line.first; entry && batch.length < batchRows; entry = line.first) {
        bytes += entry.item.bytes
        if (bytes > batchBytes && batch.length > 0) break
        leaveLine(entry)
        batch.push(entry)
      }
      // In one order everywhere: two services cannot deadlock.
      return batch.length === 0 ? undefined : batch.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    }
  }
}
