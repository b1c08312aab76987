/** An estimate of how long the waiting rows will take, from how fast batches were written. */
import type { Limits } from './types.ts'

/** The weight of a full batch in the average. One slow row makes a batch slow: a few of them must not refuse all others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }

/**
 * Learns only from attempts that were written: a failure says nothing about the store's speed. An attempt counts by how
 * full it was, since only full ones show what a full one takes. Until then, nothing is expected to take long.
 */
export function createWaitEstimate({
  lanes,
  batchRows,
  batchBytes
}: Pick<Limits, 'lanes' | 'batchRows' | 'batchBytes'>) {
  let batchMs = 0
  let attemptMs = 0

  /** How many batches these make, by the stricter of the two limits. */
  const batches = (rows: number, bytes: number) => Math.max(rows / batchRows, bytes / batchBytes)

  return {
    /** Records the time of an attempt that was written. */
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
