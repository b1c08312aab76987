/** The rows that wait for a lane: in order of arrival, one of an id at a time, and those that have failed in lists of their own. */
import type { Held } from './outage.ts'
import { List, type Row, remove } from './rows.ts'
import type { Item, Limits } from './types.ts'

/**
 * Makes an empty queue. Each operation takes constant time, `take` time for what it returns. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait for it, outside of the lists.
 * `companyOf` returns how many rows a batch with a suspect may have.
 */
export function createQueue<T extends Item, R>(
  { batchRows, batchBytes }: Pick<Limits, 'batchRows' | 'batchBytes'>,
  companyOf: (suspect: Row<T, R>) => number
) {
  let holders = new Map<bigint, Row<T, R>>()
  const fresh = new List<Row<T, R>>()
  const suspects = new List<Row<T, R>>()
  /** Suspects that have failed alone: the other suspects go first. */
  const rested = new List<Row<T, R>>()
  /** At most one batch of suspects is tried at a time: locks and slow rows must not take every lane. */
  let isSuspectTried = false
  /** How much longer suspects have held lanes than the other rows, while both waited, in ms. */
  let suspectMs = 0
  // A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every
  // later one outlives minor garbage collections (they took 30 times longer). A new Map has no such chain.
  let addedToMap = 0

  const listOf = ({ company, rests }: Row<T, R>) =>
    company > batchRows ? fresh : rests > 0 ? rested : suspects

  function enter(row: Row<T, R>, place: 'push' | 'unshift' = 'push') {
    row.state = 'waiting'
    row.inQueue = listOf(row)[place](row)
  }

  /** Releases the id of a row: the next row of that id enters the queue. */
  function release(row: Row<T, R>) {
    const { next } = row
    if (!next) return void holders.delete(row.item.id)
    holders.set(row.item.id, next)
    next.last = row.last
    row.next = undefined
    row.last = row
    next.company = row.company
    enter(next)
  }

  function leaveQueue(row: Row<T, R>) {
    if (row.inQueue) remove(row.inQueue)
    row.inQueue = undefined
  }

  function takeFrom(list: List<Row<T, R>>, isSuspect: boolean) {
    const rows: Row<T, R>[] = []
    let room = batchRows
    let bytes = 0
    for (let row = list.first; row; row = list.first) {
      if (isSuspect) room = Math.min(room, companyOf(row))
      bytes += row.item.bytes
      if (rows.length >= room || (bytes > batchBytes && rows.length > 0)) break
      leaveQueue(row)
      rows.push(row)
    }
    if (rows.length === 0) return undefined
    // In one order everywhere: two services cannot deadlock.
    rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    return { rows, isSuspect }
  }

  return {
    enter,
    release,

    add(row: Row<T, R>) {
      const holder = holders.get(row.item.id)
      if (holder === undefined) {
        if (++addedToMap > 1024 + 4 * holders.size) {
          holders = new Map(holders)
          addedToMap = 0
        }
        holders.set(row.item.id, row)
        enter(row)
      } else {
        holder.last.next = row
        holder.last = row
      }
    },

    /** Removes a row that has expired and is in no attempt. Rows of one id expire in order. */
    withdraw(row: Row<T, R>) {
      const holder = holders.get(row.item.id) as Row<T, R>
      if (holder === row) {
        leaveQueue(row)
        release(row)
      } else {
        holder.next = row.next
        if (holder.last === row) holder.last = holder
      }
    },

    /** Removes and returns rows for one attempt, sorted by id, and whether they have failed before. */
    take(held: Held) {
      if (held === 'everything') return undefined
      if (!fresh.first) suspectMs = 0
      if (held === 'nothing' && !isSuspectTried && suspectMs <= 0) {
        const batch = takeFrom(suspects, true) ?? takeFrom(rested, true)
        isSuspectTried = batch !== undefined
        if (batch) return batch
      }
      return takeFrom(fresh, false)
    },

    /** Records an attempt that has ended: while both wait, rows that fail and the others get equal time in the lanes. */
    leave(isSuspect: boolean, ms: number, ofSuspects: boolean) {
      if (isSuspect) isSuspectTried = false
      // Suspects get credit for the last attempt of the others only, so that they do not hold a lane for long at a time.
      suspectMs = ofSuspects ? suspectMs + ms : Math.max(-ms, suspectMs - ms)
    },

    /** Lets the suspects that have not failed alone be tried in large batches again. */
    regroup() {
      for (const row of suspects) row.company = batchRows
    }
  }
}
