/** The rows that wait for a lane, in the order in which the lanes of each way take them; of those with one id only the first. */
import assert from 'node:assert'
import { List } from './list.ts'
import type { Row } from './row.ts'
import { lanes, type Way } from './table.ts'
import type { Item, Limits } from './types.ts'

/** The most rows of a careful call: each costs a subtransaction, and many of them slow down the snapshots of all others. */
const mostCareful = 256
/** A look-up that has failed goes on with a quarter of its rows; each success lets four times as many go together. */
const lookUpFactor = 4

/** The first row of an id holds the id, in the queue and in a lane, until it is released. The others wait behind it. */
export class Queue<T extends Item, R> {
  readonly #batchBytes: number
  /** The most rows of the next attempt of each way. */
  readonly #mostRows: Record<Way, number>
  readonly #rows = Object.fromEntries(Object.keys(lanes).map((way) => [way, new List()])) as Record<
    Way,
    List<Row<T, R>>
  >
  /** The row that holds each id. */
  #holders = new Map<bigint, Row<T, R>>()
  /**
   * Ids added since the Map was made. When V8 lets a Map grow, its old table refers to the new one. Once one is in the old
   * generation, all later ones survive minor garbage collections, which took 30 times longer. So a new Map replaces it now and then.
   */
  #addedToMap = 0

  constructor({ batchRows, batchBytes }: Limits) {
    this.#batchBytes = batchBytes
    const careful = Math.min(mostCareful, batchRows)
    this.#mostRows = {
      together: batchRows,
      carefully: careful,
      again: careful,
      alone: 1,
      patiently: 1,
      lookUp: batchRows
    }
  }

  isWaiting(way: Way): boolean {
    return this.#rows[way].first !== undefined
  }

  /** Adds a row that holds its id. */
  enter(row: Row<T, R>, isFirst = false) {
    row.wait()
    const rows = this.#rows[row.history.way]
    if (isFirst) rows.unshift(row)
    else rows.push(row)
  }

  /** Adds a new row, which waits behind the holder of its id, if there is one. */
  add(row: Row<T, R>) {
    const holder = this.#holders.get(row.item.id)
    if (holder !== undefined) return holder.letWaitBehind(row)
    if (++this.#addedToMap > 1024 + 4 * this.#holders.size) {
      this.#holders = new Map(this.#holders)
      this.#addedToMap = 0
    }
    this.#holders.set(row.item.id, row)
    this.enter(row)
  }

  /** Removes a row that has its outcome and is in no attempt. If it held its id, the next row of that id enters the queue. */
  remove(row: Row<T, R>) {
    const { id } = row.item
    row.unlink()
    if (this.#holders.get(id) !== row) return
    const next = row.handOn()
    if (!next) return void this.#holders.delete(id)
    this.#holders.set(id, next)
    this.enter(next)
  }

  /** Removes and returns rows of a way for one attempt, sorted by id. */
  take(way: Way): Row<T, R>[] {
    const waiting = this.#rows[way]
    const rows: Row<T, R>[] = []
    let bytes = 0
    for (let { first: row } = waiting; row; row = waiting.first) {
      // A look-up sends the id alone.
      if (way !== 'lookUp') bytes += row.item.bytes
      if (rows.length >= this.#mostRows[way] || (bytes > this.#batchBytes && rows.length > 0)) break
      row.unlink()
      rows.push(row)
    }
    assert(rows.length > 0, 'a lane takes rows that wait')
    // All processes lock ids in the same order, so that none deadlocks with another.
    return rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
  }

  /** Call it when a look-up of so many rows has ended. */
  noteLookUp(rows: number, isSuccess: boolean) {
    const { lookUp, together } = this.#mostRows
    this.#mostRows.lookUp = isSuccess
      ? Math.min(together, lookUp * lookUpFactor)
      : Math.ceil(rows / lookUpFactor)
  }
}
