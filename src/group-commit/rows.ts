/** The rows that wait for their outcome: how many, how large, until when, and how long they will take. */
import type { AttemptRow, Clock, Item, Limits } from './types.ts'

/** An element's place in a list. The place of no element is after the last and before the first. */
interface Place<E> {
  readonly element?: E
  before: Place<E>
  after: Place<E>
}

/** A doubly linked list: unlike an array, it removes any element in constant time. */
export class List<E> {
  readonly #ends = {} as Place<E>

  constructor() {
    this.#ends.before = this.#ends.after = this.#ends
  }

  get first() {
    return this.#ends.after.element
  }

  /** Adds an element at the end, and returns its place; `unshift` at the beginning. */
  push(element: E): Place<E> {
    return this.#insert(element, this.#ends.before, this.#ends)
  }

  unshift(element: E): Place<E> {
    return this.#insert(element, this.#ends, this.#ends.after)
  }

  #insert(element: E, before: Place<E>, after: Place<E>): Place<E> {
    const place = { element, before, after }
    before.after = after.before = place
    return place
  }

  *[Symbol.iterator]() {
    for (let place = this.#ends.after; place !== this.#ends; place = place.after) yield place.element as E
  }
}

/** Removes a place from its list. */
export function remove(place: Place<unknown>) {
  place.before.after = place.after
  place.after.before = place.before
  // An old removed place would keep younger ones, which it refers to, from minor garbage collections.
  place.before = place.after = place
}

/** A submitted item with its callbacks, its deadline and its places in the lists. */
export class Row<T extends Item, R> implements AttemptRow<T> {
  readonly item: T
  readonly deadline: number
  readonly resolve: (result: R, rows: number) => void
  readonly reject: (error: unknown, rows?: number) => void
  /** `done`: its caller has the outcome, though an attempt may still hold the row. */
  state: 'waiting' | 'trying' | 'resting' | 'done' = 'waiting'
  mayBeStored = false
  /** How many rows it failed with: they are tried again in parts. A batch at most makes it a suspect. */
  company = Number.POSITIVE_INFINITY
  /** Its first attempt that failed, the one that it is in or was in last, and its last error. */
  failed: Attempt | undefined = undefined
  attempt: Attempt | undefined = undefined
  cause: unknown = undefined
  /** How often it failed by chance, was missing, and rested. */
  repeats = 0
  misses = 0
  rests = 0
  endRest: () => void = () => {}
  /** The next row of its id; and the last one, if this is the first. */
  next: Row<T, R> | undefined = undefined
  last: Row<T, R> = this
  /** Its place among the rows that wait for a lane, and among all. */
  inQueue: Place<Row<T, R>> | undefined = undefined
  inOrder: Place<Row<T, R>> | undefined = undefined

  constructor(item: T, deadline: number, resolve: Row<T, R>['resolve'], reject: Row<T, R>['reject']) {
    this.item = item
    this.deadline = deadline
    this.resolve = resolve
    this.reject = reject
  }
}

/** An attempt, given up when no caller waits for any of its rows. */
export interface Attempt {
  readonly rows: number
  waiting: number
  giveUp(): void
  /** When it began, in ms of the clock and by the evidence. */
  readonly began: number
  readonly since: number
}

/** Makes an empty list. When deadlines pass, `onExpired` has to settle each row, then `onEnd` is called. */
export function createPendingRows<T extends Item, R>(
  deadlineMs: number,
  clock: Clock,
  onExpired: (row: Row<T, R>) => void,
  onEnd: () => void
) {
  /** In order of arrival, and so in order of their deadlines: one timer, for the first, is enough. */
  const list = new List<Row<T, R>>()
  let cancelDeadline: (() => void) | undefined

  /** Results that have reached the process by now are in time: after a standstill they are read only after the timers. */
  function expireSoon() {
    clock.afterPoll(expire)
  }

  function expire() {
    cancelDeadline = undefined
    const now = clock.now()
    for (let row = list.first; row; row = list.first) {
      if (row.deadline > now) {
        cancelDeadline = clock.after(row.deadline - now, expireSoon)
        break
      }
      onExpired(row)
    }
    onEnd()
  }

  const pending = {
    rows: 0,
    bytes: 0,

    add(row: Row<T, R>) {
      row.inOrder = list.push(row)
      pending.rows++
      pending.bytes += row.item.bytes
      cancelDeadline ??= clock.after(deadlineMs, expireSoon)
    },

    /** Removes a row whose caller gets the outcome now. */
    settle(row: Row<T, R>) {
      row.state = 'done'
      remove(row.inOrder as Place<Row<T, R>>)
      pending.rows--
      pending.bytes -= row.item.bytes
    },

    stop() {
      cancelDeadline?.()
    }
  }
  return pending
}

/** The weight of a full batch in the average. One slow row makes a batch slow: a few of them must not refuse all others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }

/**
 * Learns only from attempts that were written: a failure says nothing about the store's speed. An attempt counts by how
 * full it was, since only full ones show what a full one takes. Until then, nothing is expected to take long.
 */
export function createWaitEstimate({ lanes, batchRows, batchBytes }: Omit<Limits, 'deadlineMs'>) {
  let batchMs = 0
  let attemptMs = 0

  const batches = (rows: number, bytes: number) => Math.max(rows / batchRows, bytes / batchBytes)

  return {
    learn(rows: number, bytes: number, ms: number) {
      const fill = batches(rows, bytes)
      // A row that is larger than a batch goes alone, and counts for several.
      attemptMs = Math.max(ms, attemptMs + (ms - attemptMs) * weights.quicker)
      const change = ms / Math.max(1, fill) - batchMs
      batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
    },
    /** What the slowest of the last attempts of any size took, in ms. */
    get attemptMs() {
      return attemptMs
    },
    /** Returns how long, in ms, the lanes are expected to take for these. */
    expectMs: (rows: number, bytes: number) => (batches(rows, bytes) * batchMs) / lanes
  }
}
