/** The rows that wait for a lane, in the order in which the lanes of each way take them; of those with one id only the first. */
import type { Row } from './row.ts'
import { isOfOne, type Way, ways } from './table.ts'
import type { Item, Limits } from './types.ts'

/** The most rows of a careful call: each costs a subtransaction, and many of them slow down the snapshots of all others. */
const mostCareful = 256

/** The first row of an id holds the id, in the queue and in a lane, until it is released. The others wait behind it. */
export class Queue<T extends Item, R> {
  readonly #limits: Limits
  /** Rows that wait. Those that are done, because they have expired, are dropped when they are met. */
  readonly #waiting = new Map<Way, Row<T, R>[]>(ways.map((way) => [way, []]))
  /** The rows of each id: the one that holds it, and those behind it. */
  #byId = new Map<bigint, Row<T, R>[]>()
  /** Ids added since the Map was made. */
  #addedToMap = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Adds a new row. */
  add(row: Row<T, R>) {
    const { id } = row.item
    const rows = this.#byId.get(id)
    if (rows) {
      rows.push(row)
      row.enter('behind')
    } else {
      this.#renewMap()
      this.#byId.set(id, [row])
      this.enter(row)
    }
  }

  /**
   * Replaces the Map now and then. When V8 lets a Map grow, its old table refers to the new one. Once one is in the old
   * generation, all later ones survive minor garbage collections, which take several times as long.
   */
  #renewMap() {
    if (++this.#addedToMap <= 1024 + 4 * this.#byId.size) return
    this.#byId = new Map(this.#byId)
    this.#addedToMap = 0
  }

  /** Adds a row that holds its id. */
  enter(row: Row<T, R>, isFirst = false) {
    row.enter('waiting')
    const rows = this.#waiting.get(row.way) as Row<T, R>[]
    if (isFirst) rows.unshift(row)
    else rows.push(row)
  }

  /** Returns all rows that hold an id or wait for one. */
  all(): Row<T, R>[] {
    return [...this.#byId.values()].flat()
  }

  /** Hands the id of a row that is in no attempt on to the next row, if the row holds it. */
  release(row: Row<T, R>) {
    const { id } = row.item
    const rows = this.#byId.get(id)
    if (rows?.[0] !== row) return
    do rows.shift()
    while (rows[0]?.state === 'done')
    const [next] = rows
    if (next === undefined) return void this.#byId.delete(id)
    next.follow(row)
    this.enter(next)
  }

  /** Removes and returns rows of a way for one attempt, sorted by id; none if none waits. */
  take(way: Way): Row<T, R>[] {
    const { batchRows, batchBytes } = this.#limits
    const isCareful = way === 'carefully' || way === 'again'
    const most = isOfOne(way) ? 1 : isCareful ? Math.min(mostCareful, batchRows) : batchRows
    const waiting = this.#waiting.get(way) as Row<T, R>[]
    const taken: Row<T, R>[] = []
    let bytes = 0
    let met = 0
    for (const row of waiting) {
      if (row.state !== 'done') {
        // A look-up sends the id alone.
        if (way !== 'lookUp') bytes += row.item.bytes
        if (taken.length >= most || (bytes > batchBytes && taken.length > 0)) break
        taken.push(row)
      }
      met++
    }
    waiting.splice(0, met)
    // All processes lock ids in the same order, so that none deadlocks with another.
    return taken.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
  }
}
