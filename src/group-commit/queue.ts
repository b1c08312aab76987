/** The rows that wait for a lane: in order of arrival, one of an id at a time, those that have failed apart. */
import type { Held } from './clock.ts'
import { List } from './list.ts'
import type { Row } from './rows.ts'
import type { Item, Limits } from './types.ts'

/** Rows for one attempt, sorted by id. */
export interface Batch<T extends Item, R> {
  readonly rows: Row<T, R>[]
  /** They have failed before. */
  readonly isSuspect: boolean
  /** So many more such batches wait, if they are as large. */
  readonly partsToCome: number
}

/**
 * Makes an empty queue. Each operation takes constant time, `take` time for what it returns. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait behind it, outside the lines.
 */
export function createQueue<T extends Item, R>({
  batchRows,
  batchBytes
}: Pick<Limits, 'batchRows' | 'batchBytes'>) {
  let holders = new Map<bigint, Row<T, R>>()
  const fresh = new List<Row<T, R>>()
  const suspects = new List<Row<T, R>>()
  /** Suspects that have failed alone: the others go first. */
  const rested = new List<Row<T, R>>()
  /** One batch of them at a time: neither locks nor slow rows must take every lane. */
  let isSuspectTried = false
  /** How long suspects have held a lane while others waited, less what the others had, in ms. */
  let owedMs = 0
  let addedToMap = 0

  const lineOf = ({ company, rests }: Row<T, R>) =>
    company > batchRows ? fresh : rests > 0 ? rested : suspects

  function enter(row: Row<T, R>, place: 'push' | 'unshift' = 'push') {
    row.state = 'waiting'
    row.inQueue = lineOf(row)[place](row)
  }

  /** Ends the hold of a row on its id: the next of that id enters. */
  function release(row: Row<T, R>) {
    const { next } = row
    if (next === undefined) {
      holders.delete(row.item.id)
      return
    }
    holders.set(row.item.id, next)
    next.last = row.last
    row.next = undefined
    row.last = row
    next.company = row.company
    enter(next)
  }

  /**
   * A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every later one
   * and the rows in it outlive the minor garbage collections (they took 30 times longer). A new Map has no such chain.
   */
  function renewMap() {
    holders = new Map(holders)
    addedToMap = 0
  }

  function leaveQueue(row: Row<T, R>) {
    if (!row.inQueue) return
    row.inQueue.list.remove(row.inQueue)
    row.inQueue = undefined
  }

  function takeFrom(line: List<Row<T, R>>, isSuspect: boolean): Batch<T, R> | undefined {
    const rows: Row<T, R>[] = []
    let room = batchRows
    let bytes = 0
    for (let row = line.first; row; row = line.first) {
      room = Math.min(room, row.company)
      bytes += row.item.bytes
      if (rows.length >= room || (bytes > batchBytes && rows.length > 0)) break
      leaveQueue(row)
      rows.push(row)
    }
    if (rows.length === 0) return undefined
    // In one order everywhere: two services cannot deadlock.
    rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    return { rows, isSuspect, partsToCome: suspects.length / rows.length }
  }

  return {
    enter,
    release,

    /** Takes a new row in. */
    add(row: Row<T, R>) {
      const holder = holders.get(row.item.id)
      if (holder === undefined) {
        if (++addedToMap > 1024 + 4 * holders.size) renewMap()
        holders.set(row.item.id, row)
        enter(row)
      } else {
        holder.last.next = row
        holder.last = row
      }
    },

    /** Takes out a row that has expired and is in no attempt. Rows of one id expire in order. */
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

    /** Takes the next rows out, or returns undefined. */
    take(held: Held): Batch<T, R> | undefined {
      if (held === 'everything') return undefined
      if (!fresh.first) owedMs = 0
      if (held === 'nothing' && !isSuspectTried && owedMs <= 0) {
        const batch = takeFrom(suspects, true) ?? takeFrom(rested, true)
        isSuspectTried = batch !== undefined
        if (batch) return batch
      }
      return takeFrom(fresh, false)
    },

    /** Takes note of an attempt that has ended: rows that fail and the others have equal time while both wait. */
    leave(isSuspect: boolean, ms: number, isOwed: boolean) {
      if (isSuspect) isSuspectTried = false
      // What the others had before their last attempt is no credit: suspects must not hold a lane for long at a time.
      owedMs = isOwed ? owedMs + ms : Math.max(-ms, owedMs - ms)
    },

    /** Lets the suspects that have not failed alone be tried in company again. */
    regroup(company: number) {
      for (let place = suspects.begin; place; place = place.after) place.element.company = company
    }
  }
}
