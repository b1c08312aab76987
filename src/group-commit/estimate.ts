/**
 * Estimates from the batches so far how long a batch takes. From that follow the time that a new
 * row is expected to wait, and the time limits of attempts.
 */
import { isSingle, type Mode } from './row.ts'
import type { Item, Limits } from './types.ts'

/**
 * How much a full batch changes the average. A batch that was slower than the average changes it
 * less, because one slow row makes a batch slow, and a few of them must not refuse all others.
 */
const weights = { quicker: 1 / 4, slower: 1 / 16 }
/** The shortest and the longest time that a batch may wait for a lock. */
const lockBoundsMs = { shortest: 25, longest: 250 }
/**
 * The time limit of an attempt with savepoints: so much for the attempt, and so much for each row.
 * It is short, because good rows that are sorted behind a slow one wait for as long.
 */
const savepointsCostMs = { attempt: 10, row: 0.1 }
/** The first time limit of a single row. It doubles each time the row backs off. */
const singleMs = 25

/**
 * The estimate learns only from batches that have committed. A failure says nothing about the speed
 * of the store, and a row that is tried again may be slow itself (Karn's algorithm, RFC 6298,
 * section 3). At first, nothing is expected to take long.
 */
export class Estimate {
  readonly #limits: Limits
  /** How long a full batch takes on average. */
  #batchMs = 0
  /**
   * How long the slowest of the recent batches took, whatever its size. Quicker batches lower it
   * slowly, and cut-offs raise it.
   */
  #slowMs = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Returns how many full batches these rows make. A row larger than a batch counts as several. */
  #batches(rows: number, bytes: number) {
    return Math.max(rows / this.#limits.batchRows, bytes / this.#limits.batchBytes)
  }

  /**
   * Learns from a batch that has committed. The fuller it was, the more it counts: only a full
   * batch shows how long a full batch takes.
   */
  learn(rows: readonly { readonly item: Item }[], ms: number) {
    this.#slowMs = Math.max(ms, this.#slowMs + (ms - this.#slowMs) * weights.quicker)
    const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
    const fill = this.#batches(rows.length, bytes)
    const change = ms / Math.max(1, fill) - this.#batchMs
    this.#batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
  }

  /**
   * Notes that a batch was cut off. The time limit may be too short for all batches, so it has
   * doubled when each lane has had a cut-off (RFC 6298, section 5.5).
   */
  noteCutOff() {
    const raised = Math.max(lockBoundsMs.shortest, this.#slowMs) * 2 ** (1 / this.#limits.lanes)
    // The time limit of a batch is four times this, so it stays below an eighth of the deadline.
    // Otherwise rows that never end would hold the lanes until the others expire.
    this.#slowMs = Math.max(this.#slowMs, Math.min(raised, this.#limits.deadlineMs / 32))
  }

  /** Returns how long the lanes are expected to take for these rows and bytes, in ms. */
  expectMs(rows: number, bytes: number): number {
    return (this.#batches(rows, bytes) * this.#batchMs) / this.#limits.lanes
  }

  /** How long a batch may take before it is suspected of having a slow row, in ms. */
  get batchLimitMs(): number {
    return 4 * Math.max(lockBoundsMs.shortest, this.#slowMs)
  }

  /**
   * How long a batch may wait for a lock, in ms: twice as long as the slowest of the recent batches
   * took, because a batch of another replica usually holds the lock no longer. With a wait shorter
   * than a usual batch, two replicas could fail each other's batches again and again. The upper
   * bound limits how long a foreign transaction holds up the rows of a batch.
   */
  get lockMs(): number {
    const ms = Math.min(lockBoundsMs.longest, Math.max(lockBoundsMs.shortest, 2 * this.#slowMs))
    return Math.ceil(ms)
  }

  /**
   * Returns the time limit of an attempt with savepoints, in ms. It stays below a third of the
   * deadline, at which the session would cancel the statement, and the rows would have no result.
   */
  savepointsLimitMs(mode: Mode, rows: number, backoffs: number): number {
    const { attempt, row } = savepointsCostMs
    const ms = isSingle(mode) ? singleMs * 2 ** backoffs : attempt + row * rows
    return Math.ceil(Math.min(this.#limits.deadlineMs / 4, ms))
  }
}
