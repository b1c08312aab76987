/** The rows that wait for a lane, one of an id at a time, and which of them a free lane takes. */
import { List } from '../shared/list.ts'
import { type Kind, parts, type Row } from './row.ts'
import type { Item, Limits } from './types.ts'

/** Rows whose callers take turns. */
class Turns<T extends Item, R> {
  readonly #lists = new Map<string, List<Row<T, R>>>()

  add(row: Row<T, R>, place: 'push' | 'unshift') {
    const { caller = '' } = row.item
    const list = this.#lists.get(caller) ?? new List()
    this.#lists.set(caller, list)
    list[place](row)
  }

  get first(): Row<T, R> | undefined {
    for (const [caller, { first }] of this.#lists) {
      if (first) return first
      this.#lists.delete(caller)
    }
    return undefined
  }

  /** The caller of this row, which has gone last, comes after all others. */
  turn({ item: { caller = '' } }: Row<T, R>) {
    const list = this.#lists.get(caller)
    this.#lists.delete(caller)
    if (list?.first) this.#lists.set(caller, list)
  }
}

/** The kinds, in the order in which they take turns. */
const kinds: readonly Kind[] = ['find', 'fresh', 'first', 'longer']

/**
 * Makes an empty queue. Each operation takes constant time, `take` time for what it returns. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait for it, outside of the lists.
 */
export function createQueue<T extends Item, R>({ lanes, batchRows, batchBytes }: Omit<Limits, 'deadlineMs'>) {
  let holders = new Map<bigint, Row<T, R>>()
  const fresh = new List<Row<T, R>>()
  const find = new Turns<T, R>()
  /** Suspects, by their slices: those of a shorter one go first. */
  const slices: Turns<T, R>[] = [new Turns()]
  /** How many lanes have a batch of a kind, and how many batches of it have succeeded in a row. */
  const busy = { find: 0, fresh: 0, first: 0, longer: 0 }
  const successes = { fresh: 0, first: 0, longer: 0 }
  /** How many look-ups go together: a quarter of those that have failed, and more after each success. */
  let findRows = batchRows
  /** How much more time rows that may take longer have had than the others since. */
  let debtMs = 0
  let last: Kind = 'longer'
  // A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every
  // later one outlives minor garbage collections (they took 30 times longer). A new Map has no such chain.
  let addedToMap = 0

  /** Returns the list that a free lane takes rows of a kind from. */
  function listOf(kind: Kind): List<Row<T, R>> | Turns<T, R> | undefined {
    if (kind === 'fresh') return fresh
    if (kind === 'find') return find
    return kind === 'first' ? slices[0] : slices.find((turns, slice) => slice > 0 && turns.first)
  }

  function enter(row: Row<T, R>, place: 'push' | 'unshift' = 'push') {
    row.wait()
    const { kind, history } = row
    while (slices.length <= history.slice) slices.push(new Turns())
    if (kind === 'fresh') fresh[place](row)
    else (kind === 'find' ? find : slices[history.slice])?.add(row, place)
  }

  /** Releases the id of a row: the next row of that id enters the queue. */
  function release(row: Row<T, R>) {
    const next = row.handOn()
    if (!next) return void holders.delete(row.item.id)
    holders.set(row.item.id, next)
    enter(next)
  }

  /**
   * Suspects leave a lane to the others. Those that may take longer have one at most, only while no first
   * trial waits, and in a single lane not before the others have had as much time.
   */
  function mayStart(kind: Kind): boolean {
    if (!listOf(kind)?.first) return false
    if (kind === 'fresh') return true
    if (kind === 'find') return busy.find === 0
    const isFree = busy.first + busy.longer < Math.max(1, lanes - 1)
    if (!isFree || kind === 'first') return isFree
    const isDue = lanes > 1 || debtMs <= 0 || !(fresh.first || find.first)
    return isDue && busy.longer === 0 && !listOf('first')?.first
  }

  /**
   * How many rows may go with this one. Those of a part that failed go on in smaller ones; the more succeed in a row, the
   * more go together, so that what all have met is soon over when it ends.
   */
  function room(kind: Kind, { history: { company } }: Row<T, R>): number {
    if (kind === 'fresh') return batchRows
    return kind === 'find' ? findRows : company * Math.max(1, Math.ceil(successes[kind] / parts))
  }

  return {
    enter,
    release,

    /** Returns what a free lane takes: first trials, or else the kinds in turn; all in turn if it is the only one. */
    choose(): Kind | undefined {
      if (lanes > 1 && mayStart('first')) return 'first'
      const turn = kinds.indexOf(last) + 1
      return [...kinds.slice(turn), ...kinds.slice(0, turn)].find(mayStart)
    },

    add(row: Row<T, R>) {
      const holder = holders.get(row.item.id)
      if (holder !== undefined) return holder.follow(row)
      if (++addedToMap > 1024 + 4 * holders.size) {
        holders = new Map(holders)
        addedToMap = 0
      }
      holders.set(row.item.id, row)
      enter(row)
    },

    /** Removes a row that has expired and is in no attempt. */
    withdraw(row: Row<T, R>) {
      row.unlink()
      if (holders.get(row.item.id) === row) release(row)
    },

    /** Removes and returns rows of a kind for one attempt, sorted by id. */
    take(kind: Kind): Row<T, R>[] {
      const list = listOf(kind)
      const rows: Row<T, R>[] = []
      let most = batchRows
      let bytes = 0
      for (let row = list?.first; row; row = list?.first) {
        most = Math.min(most, room(kind, row))
        // A look-up sends the id alone.
        if (kind !== 'find') bytes += row.item.bytes
        if (rows.length >= most || (bytes > batchBytes && rows.length > 0)) break
        row.unlink()
        rows.push(row)
      }
      if (list instanceof Turns) list.turn(rows.at(-1) as Row<T, R>)
      // In one order everywhere: two services cannot deadlock.
      rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
      last = kind
      busy[kind]++
      return rows
    },

    /** An attempt with so many rows of a kind has ended after so long. */
    leave(kind: Kind, rows: number, isSuccess: boolean, ms: number) {
      busy[kind]--
      debtMs = kind === 'longer' ? debtMs + ms : Math.max(0, debtMs - ms)
      if (kind !== 'find') successes[kind] = isSuccess ? successes[kind] + 1 : 0
      else findRows = isSuccess ? Math.min(batchRows, findRows * parts) : Math.ceil(rows / parts)
    }
  }
}
