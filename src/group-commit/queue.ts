/** The rows that wait for a lane, in the order in which the lanes of each way take them; of those with one id only the first. */
import type { Row } from './row.ts'
import { lanes, type Way } from './table.ts'
import type { Item, Limits } from './types.ts'

/** The most rows of a careful call: each costs a subtransaction, and many of them slow down the snapshots of all others. */
const mostCareful = 256

/** The first row of an id holds the id, in the queue and in a lane, until it is released. The others wait behind it. */
export class Queue<T extends Item, R> {
  readonly #batchBytes: number
  /** The most rows of an attempt of each way. */
  readonly #mostRows: Record<Way, number>
  /** Rows that wait. Those that are done, because they have expired, are dropped when they are met. */
  readonly #rows = Object.fromEntries(Object.keys(lanes).map((way) => [way, []])) as unknown as Record<
    Way,
    Row<T, R>[]
  >
  /** The row that holds each id, and those behind it. */
  #holders = new Map<bigint, Row<T, R>>()
  readonly #behind = new Map<bigint, Row<T, R>[]>()
  /** Ids added since the Map was made. */
  #addedToMap = 0

  constructor({ batchRows, batchBytes }: Limits) {
    this.#batchBytes = batchBytes
    const careful = Math.min(mostCareful, batchRows)
    const several = { together: batchRows, carefully: careful, again: careful, lookUp: batchRows }
    this.#mostRows = { ...several, alone: 1, patiently: 1 }
  }

  /** Adds a row that holds its id. */
  enter(row: Row<T, R>, isFirst = false) {
    row.enter('waiting')
    const rows = this.#rows[row.history.way]
    if (isFirst) rows.unshift(row)
    else rows.push(row)
  }

  /** Adds a new row. */
  add(row: Row<T, R>) {
    const { id } = row.item
    if (!this.#holders.has(id)) {
      this.#hold(row)
      return
    }
    row.enter('behind')
    const rows = this.#behind.get(id)
    if (rows) rows.push(row)
    else this.#behind.set(id, [row])
  }

  #hold(row: Row<T, R>) {
    // When V8 lets a Map grow, its old table refers to the new one. Once one is in the old generation, all later ones survive
    // minor garbage collections, which took 30 times longer. So a new Map replaces it now and then.
    if (++this.#addedToMap > 1024 + 4 * this.#holders.size) {
      this.#holders = new Map(this.#holders)
      this.#addedToMap = 0
    }
    this.#holders.set(row.item.id, row)
    this.enter(row)
  }

  /** Returns all rows that hold an id or wait for one. */
  all(): Row<T, R>[] {
    return [...this.#holders.values(), ...[...this.#behind.values()].flat()]
  }

  /** Hands the id of a row that is in no attempt on to the next row, if the row holds it. */
  release(row: Row<T, R>) {
    const { id } = row.item
    if (this.#holders.get(id) !== row) return
    this.#holders.delete(id)
    const rows = this.#behind.get(id)
    if (rows === undefined) return
    let next = rows.shift()
    while (next?.history.state === 'done') next = rows.shift()
    if (rows.length === 0) this.#behind.delete(id)
    if (next === undefined) return
    next.follow(row)
    this.#hold(next)
  }

  /** Removes and returns rows of a way for one attempt, sorted by id; none if none waits. */
  take(way: Way): Row<T, R>[] {
    const waiting = this.#rows[way]
    const taken: Row<T, R>[] = []
    let bytes = 0
    let met = 0
    for (const row of waiting) {
      if (row.history.state !== 'done') {
        // A look-up sends the id alone.
        if (way !== 'lookUp') bytes += row.item.bytes
        if (taken.length >= this.#mostRows[way] || (bytes > this.#batchBytes && taken.length > 0)) break
        taken.push(row)
      }
      met++
    }
    waiting.splice(0, met)
    // All processes lock ids in the same order, so that none deadlocks with another.
    return taken.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
  }
}
