/** How long batches take, and from that how long a new row is expected to wait, and the limits of attempts. */
import { isSingle, type Mode } from './row.ts'
import type { Item, Limits } from './types.ts'

/** The weight of a full batch in the average. One slow row makes a batch slow, and a few of them must not refuse all others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }
/** The shortest and the longest wait of a batch for a lock. */
const lockBoundsMs = { shortest: 25, longest: 250 }
/** The time of a careful call, and of each of its rows. Good rows that are sorted behind slow ones wait as long. */
const savepointsCostMs = { call: 10, row: 0.1 }
/** The time of a row alone. It is doubled for each rest that the row has had. */
const singleMs = 25

/**
 * Learns only from batches that were written batch: a failure says nothing about the store's speed, and a row that has
 * failed before may be slow itself (Karn's algorithm, RFC 6298, section 3). At first, nothing is expected to take long.
 */
export class Estimate {
  readonly #limits: Limits
  /** How long a full batch takes on average. */
  #batchMs = 0
  /** How long the slowest of the latest batches took, whatever its size; quicker ones lower it slowly, cut-offs raise it. */
  #slowMs = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  /** Returns how many full batches these rows make. One that is larger than a batch goes alone, and counts as several. */
  #batches(rows: number, bytes: number) {
    return Math.max(rows / this.#limits.batchRows, bytes / this.#limits.batchBytes)
  }

  /** Learns from a batch that was written together. It counts by how full it was: only full ones show what a full one takes. */
  learn(rows: readonly { readonly item: Item }[], ms: number) {
    this.#slowMs = Math.max(ms, this.#slowMs + (ms - this.#slowMs) * weights.quicker)
    const bytes = rows.reduce((sum, { item }) => sum + item.bytes, 0)
    const fill = this.#batches(rows.length, bytes)
    const change = ms / Math.max(1, fill) - this.#batchMs
    this.#batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
  }

  /** A batch was cut off. After one in each lane the time doubles: it may be too short for all (RFC 6298, section 5.5). */
  noteCutOff() {
    const raised = Math.max(lockBoundsMs.shortest, this.#slowMs) * 2 ** (1 / this.#limits.lanes)
    // Up to an eighth of the deadline for a batch: behind many rows that never end, others would expire.
    this.#slowMs = Math.max(this.#slowMs, Math.min(raised, this.#limits.deadlineMs / 32))
  }

  /** How long the lanes are expected to take for these rows and bytes, in ms. */
  expectMs(rows: number, bytes: number): number {
    return (this.#batches(rows, bytes) * this.#batchMs) / this.#limits.lanes
  }

  /** After this time a batch is suspected of having a slow row, in ms. */
  get batchLimitMs(): number {
    return 4 * Math.max(lockBoundsMs.shortest, this.#slowMs)
  }

  /** How long a batch waits for a lock: as long as another replica's may hold it, or two replicas break each other's batches for ever. */
  get lockMs(): number {
    return Math.ceil(Math.min(lockBoundsMs.longest, Math.max(lockBoundsMs.shortest, 2 * this.#slowMs)))
  }

  /** The limit of a careful call, in ms. At a third of the deadline its session would cancel it, and the result be lost. */
  savepointsLimitMs(mode: Mode, rows: number, rests: number): number {
    const ms = isSingle(mode) ? singleMs * 2 ** rests : savepointsCostMs.call + savepointsCostMs.row * rows
    return Math.ceil(Math.min(this.#limits.deadlineMs / 4, ms))
  }
}
