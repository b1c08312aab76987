/** The rows that wait for a lane, one of an id at a time, and which of them a free lane takes. */
import { List } from './list.ts'
import type { Kind, Row } from './row.ts'
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

  /** An attempt was filled: the caller of its last rows goes to the end. */
  turn() {
    for (const [caller, list] of this.#lists) {
      this.#lists.delete(caller)
      this.#lists.set(caller, list)
      return
    }
  }
}

/** Into how many parts rows that have failed together are split. */
export const usualParts = 4

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
  /** How many lanes have a batch of a kind, and the kind that was taken last. */
  const busy = { find: 0, fresh: 0, first: 0, longer: 0 }
  /**
   * How many rows may go together, or how many parts of first trials: fewer after a failure, more after successes. So what all
   * have met is soon over when it ends.
   */
  const company = { find: batchRows, fresh: batchRows, first: 1, longer: 1 }
  /** How many first trials have succeeded in a row. */
  let successes = 0
  let last = 0
  /** How much more time those that may take longer have had than the others since. */
  let debtMs = 0
  // A V8 Map that grows or drops its holes links its old table to the new one: once a table is old, every
  // later one outlives minor garbage collections (they took 30 times longer). A new Map has no such chain.
  let addedToMap = 0

  function enter(row: Row<T, R>, place: 'push' | 'unshift' = 'push') {
    row.wait()
    const { kind } = row
    if (kind === 'fresh') fresh[place](row)
    else if (kind === 'find') find.add(row, place)
    else {
      const { slice } = row.history
      for (let more = slices.length; more <= slice; more++) slices.push(new Turns())
      slices[slice]?.add(row, place)
    }
  }

  /** Releases the id of a row: the next row of that id enters the queue. */
  function release(row: Row<T, R>) {
    const next = row.handOn()
    if (!next) return void holders.delete(row.item.id)
    holders.set(row.item.id, next)
    enter(next)
  }

  const longer = () => slices.find((turns, slice) => slice > 0 && turns.first)
  const listOf = (kind: Kind) =>
    kind === 'fresh' ? fresh : kind === 'find' ? find : kind === 'first' ? slices[0] : longer()

  /**
   * Suspects leave a lane to the others. Those that may take longer have one lane at most, wait until no first trial does, and
   * in a single lane until the others have had as much time.
   */
  function isFree(kind: Kind, isSlow: boolean): boolean {
    if (kind === 'fresh') return !isSlow || busy.fresh === 0
    if (kind === 'find') return busy.find === 0
    if (busy.first + busy.longer >= Math.max(1, lanes - 1)) return false
    if (kind === 'first') return true
    if (busy.longer > 0 || slices[0]?.first) return false
    return lanes > 1 || debtMs <= 0 || !(fresh.first || find.first)
  }

  /** Returns what a free lane takes: first trials, or else the kinds that may have one in turn; all in turn if it is the only one. */
  function choose(isSlow: boolean): Kind | undefined {
    const canTake = (kind: Kind) => isFree(kind, isSlow) && listOf(kind)?.first
    if (lanes > 1 && canTake('first')) return 'first'
    for (let turn = 1; turn <= kinds.length; turn++) {
      const kind = kinds[(last + turn) % kinds.length] as Kind
      if (canTake(kind)) return kind
    }
    return undefined
  }

  return {
    enter,
    release,
    choose,

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
      const holder = holders.get(row.item.id) as Row<T, R>
      if (holder !== row) return holder.dropNext()
      row.unlink()
      release(row)
    },

    /** Removes and returns rows of a kind for one attempt, sorted by id. */
    take(kind: Kind): Row<T, R>[] {
      const list = listOf(kind) as List<Row<T, R>> | Turns<T, R>
      const rows: Row<T, R>[] = []
      let room = kind === 'first' ? batchRows : company[kind]
      let bytes = 0
      for (let row = list.first; row; row = list.first) {
        if (kind === 'first') room = Math.min(room, row.history.company * company.first)
        // A look-up sends the id alone.
        if (kind !== 'find') bytes += row.item.bytes
        if (rows.length >= room || (bytes > batchBytes && rows.length > 0)) break
        // A part that is half full has no rows of a further caller: theirs may be at fault.
        if (kind === 'first' && rows.length * 2 >= room && rows.at(-1)?.item.caller !== row.item.caller) break
        row.unlink()
        rows.push(row)
      }
      if (list instanceof Turns) list.turn()
      // In one order everywhere: two services cannot deadlock.
      rows.sort((a, b) => (a.item.id < b.item.id ? -1 : 1))
      last = kinds.indexOf(kind)
      busy[kind]++
      return rows
    },

    /** An attempt with so many rows has ended after so long. */
    leave(kind: Kind, rows: number, isSuccess: boolean, ms: number) {
      busy[kind]--
      debtMs = kind === 'longer' ? debtMs + ms : Math.max(0, debtMs - ms)
      if (kind === 'first') {
        successes = isSuccess ? successes + 1 : 0
        company.first = Math.min(batchRows, 2 ** Math.floor(successes / usualParts))
      } else if (kind !== 'fresh')
        company[kind] = isSuccess
          ? Math.min(batchRows, company[kind] * usualParts)
          : Math.ceil(rows / usualParts)
    }
  }
}
