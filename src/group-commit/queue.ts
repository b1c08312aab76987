/** The rows that wait for a lane, in the order in which lanes take them; of those with one id only the first. */
import assert from 'node:assert'
import type { LanePolicy } from './lane-policy.ts'
import { List } from './list.ts'
import type { Kind, Row } from './row.ts'
import type { Item, Limits } from './types.ts'

/** The end of a list at which a row enters. */
type End = 'front' | 'back'

function insert<T extends Item, R>(list: List<Row<T, R>>, row: Row<T, R>, end: End) {
  if (end === 'front') list.unshift(row)
  else list.push(row)
}

/** Rows whose callers take turns. */
class Turns<T extends Item, R> {
  /** The rows of each caller; the callers in the order of their turns. */
  readonly #lists = new Map<string, List<Row<T, R>>>()

  add(row: Row<T, R>, end: End) {
    const { caller = '' } = row.item
    const list = this.#lists.get(caller) ?? new List()
    this.#lists.set(caller, list)
    insert(list, row, end)
  }

  /** Returns the row whose turn it is. Forgets callers without rows. */
  next(): Row<T, R> | undefined {
    for (const [caller, { first }] of this.#lists) {
      if (first) return first
      this.#lists.delete(caller)
    }
    return undefined
  }

  /** Ends the turn of the caller of a row: its other rows come after those of all other callers. */
  endTurn({ item: { caller = '' } }: Row<T, R>) {
    const list = this.#lists.get(caller)
    this.#lists.delete(caller)
    if (list?.first) this.#lists.set(caller, list)
  }
}

const nextOf = <T extends Item, R>(rows: List<Row<T, R>> | Turns<T, R>) =>
  rows instanceof Turns ? rows.next() : rows.first

/**
 * A queue. Each operation takes constant time, and `take` time in proportion to the rows that it returns. The first row of an id holds the id, in the
 * queue and in a lane, until it is released. The others wait behind it, in none of the lists.
 */
export class Queue<T extends Item, R> {
  readonly #limits: Limits
  readonly #lanePolicy: LanePolicy
  /** The row that holds each id. */
  #holders = new Map<bigint, Row<T, R>>()
  readonly #newRows = new List<Row<T, R>>()
  readonly #lookUps = new Turns<T, R>()
  /** Suspects, by how often their time limit is doubled; those with a shorter limit go first. */
  readonly #trials: Turns<T, R>[] = [new Turns()]
  /**
   * Ids added since the Map of holders was made. When a V8 Map grows or compacts, its old table refers to the new one. Once a
   * table is in the old generation, all later ones survive minor garbage collections, which took 30 times longer. So a new
   * Map, without that chain, replaces it now and then.
   */
  #addedToMap = 0

  constructor(limits: Limits, lanePolicy: LanePolicy) {
    this.#limits = limits
    this.#lanePolicy = lanePolicy
  }

  /** Returns the rows of a kind that a free lane takes from; undefined for long trials, if there are none. */
  #rowsOf(kind: Kind): List<Row<T, R>> | Turns<T, R> | undefined {
    if (kind === 'newRows') return this.#newRows
    if (kind === 'lookUp') return this.#lookUps
    if (kind === 'firstTrial') return this.#trials[0]
    return this.#trials.find((turns, doublings) => doublings > 0 && turns.next())
  }

  /** Returns whether rows of a kind wait. A field, so that it can be passed on. */
  readonly isWaiting = (kind: Kind): boolean => {
    const rows = this.#rowsOf(kind)
    return rows !== undefined && nextOf(rows) !== undefined
  }

  /** Adds a row that holds its id. */
  enter(row: Row<T, R>, end: End = 'back') {
    row.wait()
    const { kind, history } = row
    while (this.#trials.length <= history.doublings) this.#trials.push(new Turns())
    if (kind === 'newRows') insert(this.#newRows, row, end)
    else (kind === 'lookUp' ? this.#lookUps : this.#trials[history.doublings])?.add(row, end)
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

  /** Releases the id of its holder; the next row of that id enters the queue. */
  releaseId(holder: Row<T, R>) {
    const next = holder.handOn()
    if (next) {
      this.#holders.set(holder.item.id, next)
      this.enter(next)
      return
    }
    const hadHolder = this.#holders.delete(holder.item.id)
    assert(hadHolder, 'an id is released once')
  }

  /** Removes a row that has expired and is in no attempt. */
  withdraw(row: Row<T, R>) {
    row.unlink()
    if (this.#holders.get(row.item.id) === row) this.releaseId(row)
  }

  /** Removes and returns rows of a kind for one attempt, sorted by id. */
  take(kind: Kind): Row<T, R>[] {
    const waiting = this.#rowsOf(kind)
    assert(waiting, 'a lane takes rows that wait')
    const rows: Row<T, R>[] = []
    let mostRows = this.#limits.batchRows
    let bytes = 0
    for (let row = nextOf(waiting); row; row = nextOf(waiting)) {
      mostRows = Math.min(mostRows, this.#lanePolicy.mostRows(kind, row.history.partRows))
      // A look-up sends the id alone.
      if (kind !== 'lookUp') bytes += row.item.bytes
      if (rows.length >= mostRows || (bytes > this.#limits.batchBytes && rows.length > 0)) break
      row.unlink()
      rows.push(row)
    }
    if (waiting instanceof Turns) waiting.endTurn(rows.at(-1) as Row<T, R>)
    // All processes lock ids in the same order, so that none deadlocks with another.
    rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    return rows
  }
}
