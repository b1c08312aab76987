/** The rows that wait for a lane: in order of arrival, one of an id at a time, those that have failed apart. */

import { List, type Place } from './list.ts'
import type { PendingRow } from './pending-row.ts'
import type { Trial } from './trial.ts'
import type { Item, Limits } from './types.ts'

/** Rows for one attempt, sorted by id, and the trial that they are a part of. */
export interface Part<T extends Item, R> {
  readonly rows: PendingRow<T, R>[]
  readonly trial?: Trial<T, R>
}

/**
 * Makes an empty queue. Each operation takes constant time, `take` time for what it gives. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait behind it, outside the lines.
 */
export function createQueue<T extends Item, R>({
  batchRows,
  batchBytes
}: Pick<Limits, 'batchRows' | 'batchBytes'>) {
  let holders = new Map<bigint, PendingRow<T, R>>()
  const line = new List<PendingRow<T, R>>()
  const suspects = new List<PendingRow<T, R>>()
  const trials = new List<Trial<T, R>>()
  const urgentTrials = new List<Trial<T, R>>()
  let suspectInLane: PendingRow<T, R> | undefined
  /** What has failed was taken last, and the line's turn has come. */
  let isLinesTurn = false
  /** How long slow rows have held a lane while others waited, less what was written since, in ms. */
  let owedMs = 0
  let addedToMap = 0

  function enter(entry: PendingRow<T, R>) {
    const to = entry.suspect ? suspects : line
    entry.inLine = to.push(entry)
  }

  /** Ends the hold of a row on its id: the next of that id enters. */
  function release(entry: PendingRow<T, R>) {
    const { next } = entry
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

  /** Ends the time of rows in a lane. */
  function leave([first]: PendingRow<T, R>[]) {
    if (suspectInLane === first) suspectInLane = undefined
  }

  /**
   * A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every later one
   * and the rows in it outlive the minor garbage collections (they took 30 times longer). A new Map has no such chain.
   */
  function renewMap() {
    holders = new Map(holders)
    addedToMap = 0
  }

  function leaveLine(entry: PendingRow<T, R>) {
    if (!entry.inLine) return
    entry.inLine.list.remove(entry.inLine)
    entry.inLine = undefined
  }

  function enterTrial(trial: Trial<T, R>) {
    // A limited one has waited for long already, and ends soon.
    trial.place ??= (trial.limitMs === undefined ? trials : urgentTrials).push(trial)
  }

  function leaveTrials(trial: Trial<T, R>) {
    const place = trial.place as Place<Trial<T, R>>
    place.list.remove(place)
    trial.place = undefined
  }

  function takePart(list: List<Trial<T, R>>): Part<T, R> | undefined {
    for (let trial = list.first; trial; trial = list.first) {
      const rows = trial.take()
      if (trial.isEmpty) leaveTrials(trial)
      if (rows.length > 0) return { rows, trial }
    }
    return undefined
  }

  function takeSuspect(): Part<T, R> | undefined {
    // One at a time, and not before the others had as much: neither locks nor slow rows must take every lane.
    if (suspectInLane !== undefined || !suspects.first || owedMs > 0) return undefined
    suspectInLane = suspects.first
    leaveLine(suspectInLane)
    return { rows: [suspectInLane] }
  }

  function takeBatch(): Part<T, R> | undefined {
    const rows: PendingRow<T, R>[] = []
    let bytes = 0
    for (let entry = line.first; entry && rows.length < batchRows; entry = line.first) {
      bytes += entry.item.bytes
      if (bytes > batchBytes && rows.length > 0) break
      leaveLine(entry)
      rows.push(entry)
    }
    return rows.length === 0 ? undefined : { rows }
  }

  function takeNext(): Part<T, R> | undefined {
    const urgent = takePart(urgentTrials)
    if (urgent) return urgent
    if (!line.first) owedMs = 0
    const failed = line.first && isLinesTurn ? undefined : (takePart(trials) ?? takeSuspect())
    isLinesTurn = failed !== undefined
    return failed ?? takeBatch()
  }

  return {
    enter,
    enterTrial,
    leave,
    leaveTrials,
    release,

    /** Takes a new row in. */
    add(entry: PendingRow<T, R>) {
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

    /** Takes the time that a row was slow by itself: the others get as much before such a row has its turn again. */
    owe(ms: number) {
      owedMs += ms
    },

    /** Takes the time of an attempt with rows of the line. */
    repay(ms: number) {
      owedMs = Math.max(0, owedMs - ms)
    },

    /** Takes out a row that has expired and is in no attempt. Rows of one id expire in order. */
    withdraw(entry: PendingRow<T, R>) {
      const holder = holders.get(entry.item.id) as PendingRow<T, R>
      if (holder === entry) {
        leaveLine(entry)
        release(entry)
      } else {
        holder.next = entry.next
        if (holder.last === entry) holder.last = holder
      }
    },

    /** Takes the next rows out, or gives undefined. */
    take(): Part<T, R> | undefined {
      const part = takeNext()
      // In one order everywhere: two services cannot deadlock.
      part?.rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
      return part
    }
  }
}
