/** The rows that wait for a lane, one of an id at a time, and which of them a free lane takes. */
import { List } from '../shared/list.ts'
import type { Kind, Row } from './row.ts'
import type { Item, Limits } from './types.ts'

const parts = 4

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

/** The kinds but first trials, in the order in which they take turns. */
const others: readonly Kind[] = ['find', 'fresh', 'longer']

/**
 * A queue. Each operation takes constant time, `take` time for what it returns. The first row of an id
 * holds the id, in the queue and in a lane, until it is released; the others wait for it, outside of the lists.
 */
export class Queue<T extends Item, R> {
  readonly #limits: Limits
  #holders = new Map<bigint, Row<T, R>>()
  readonly #fresh = new List<Row<T, R>>()
  readonly #find = new Turns<T, R>()
  /** Suspects, by their slices: those of a shorter one go first. */
  readonly #slices: Turns<T, R>[] = [new Turns()]
  /** How many lanes have a batch of a kind; and how many of suspects have succeeded since one has failed, or one of new rows. */
  readonly #busy = { find: 0, fresh: 0, first: 0, longer: 0 }
  readonly #successes = { first: 0, longer: 0 }
  /** How many look-ups go together: a quarter of those that have failed, four times as many after each success. */
  #findRows: number
  /** How much time the others are to have before rows that may take longer have some again, in ms. */
  #debtMs = 0
  #last: Kind = 'longer'
  #lastOther: Kind = 'longer'
  // A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every
  // later one outlives minor garbage collections (they took 30 times longer). A new Map has no such chain.
  #addedToMap = 0

  constructor(limits: Limits) {
    this.#limits = limits
    this.#findRows = limits.batchRows
  }

  /** Returns the list that a free lane takes rows of a kind from. */
  #listOf(kind: Kind): List<Row<T, R>> | Turns<T, R> | undefined {
    if (kind === 'fresh') return this.#fresh
    if (kind === 'find') return this.#find
    return kind === 'first' ? this.#slices[0] : this.#slices.find((turns, slice) => slice > 0 && turns.first)
  }

  enter(row: Row<T, R>, place: 'push' | 'unshift' = 'push') {
    row.wait()
    const { kind, history } = row
    while (this.#slices.length <= history.slice) this.#slices.push(new Turns())
    if (kind === 'fresh') this.#fresh[place](row)
    else (kind === 'find' ? this.#find : this.#slices[history.slice])?.add(row, place)
  }

  /** Releases the id of a row: the next row of that id enters the queue. */
  releaseId(row: Row<T, R>) {
    const next = row.handOn()
    if (!next) return void this.#holders.delete(row.item.id)
    this.#holders.set(row.item.id, next)
    this.enter(next)
  }

  /**
   * Suspects leave a lane to the others. Those that may take longer have one at most, and while first trials wait (in a
   * single lane, while anything waits) a quarter of the time that the others have.
   */
  #mayStart(kind: Kind): boolean {
    if (!this.#listOf(kind)?.first) return false
    if (kind === 'fresh') return true
    if (kind === 'find') return this.#busy.find === 0
    const { lanes } = this.#limits
    const isFree = this.#busy.first + this.#busy.longer < Math.max(1, lanes - 1)
    if (!isFree || kind === 'first') return isFree
    const isWaitedFor =
      this.#listOf('first')?.first || (lanes === 1 && (this.#fresh.first || this.#find.first))
    return this.#busy.longer === 0 && (this.#debtMs <= 0 || !isWaitedFor)
  }

  /**
   * How many rows may go with this one. Those of a part that failed go on in smaller ones; the more succeed in a row, the
   * more go together, so that what all have met is soon over when it ends.
   */
  #room(kind: Kind, { history: { partRows } }: Row<T, R>): number {
    if (kind === 'fresh') return this.#limits.batchRows
    return kind === 'find' ? this.#findRows : partRows * Math.max(1, Math.ceil(this.#successes[kind] / parts))
  }

  /** Returns what a free lane takes: a first trial each second time, and between them the other kinds in turn. */
  choose(): Kind | undefined {
    const turn = others.indexOf(this.#lastOther) + 1
    const inTurn = [...others.slice(turn), ...others.slice(0, turn)]
    const kinds: Kind[] = this.#last === 'first' ? [...inTurn, 'first'] : ['first', ...inTurn]
    return kinds.find((kind) => this.#mayStart(kind))
  }

  add(row: Row<T, R>) {
    const holder = this.#holders.get(row.item.id)
    if (holder !== undefined) return holder.follow(row)
    if (++this.#addedToMap > 1024 + 4 * this.#holders.size) {
      this.#holders = new Map(this.#holders)
      this.#addedToMap = 0
    }
    this.#holders.set(row.item.id, row)
    this.enter(row)
  }

  /** Removes a row that has expired and is in no attempt. */
  withdraw(row: Row<T, R>) {
    row.unlink()
    if (this.#holders.get(row.item.id) === row) this.releaseId(row)
  }

  /** Removes and returns rows of a kind for one attempt, sorted by id. */
  take(kind: Kind): Row<T, R>[] {
    const list = this.#listOf(kind)
    const rows: Row<T, R>[] = []
    let most = this.#limits.batchRows
    let bytes = 0
    for (let row = list?.first; row; row = list?.first) {
      most = Math.min(most, this.#room(kind, row))
      // A look-up sends the id alone.
      if (kind !== 'find') bytes += row.item.bytes
      if (rows.length >= most || (bytes > this.#limits.batchBytes && rows.length > 0)) break
      row.unlink()
      rows.push(row)
    }
    if (list instanceof Turns) list.turn(rows.at(-1) as Row<T, R>)
    // In one order everywhere: two services cannot deadlock.
    rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
    this.#last = kind
    if (kind !== 'first') this.#lastOther = kind
    this.#busy[kind]++
    return rows
  }

  /** An attempt with so many rows of a kind has ended after so long. */
  leave(kind: Kind, rows: number, isSuccess: boolean, ms: number) {
    this.#busy[kind]--
    this.#debtMs = kind === 'longer' ? parts * ms : this.#debtMs - ms
    if (kind === 'find')
      this.#findRows = isSuccess
        ? Math.min(this.#limits.batchRows, this.#findRows * parts)
        : Math.ceil(rows / parts)
    else if (!isSuccess) this.#successes.first = this.#successes.longer = 0
    else if (kind !== 'fresh') this.#successes[kind]++
  }
}
