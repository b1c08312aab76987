/** How fast batches are written, and how long what waits will take. */
import type { Limits } from './types.ts'

/** What a full batch counts in the average. One slow row makes a batch slow: some of them must not refuse the others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }

/**
 * Learns from the attempts that were written, and from no others: a failure says nothing of the store's speed, and an
 * outage is waited for. An attempt counts by how full it was, since only full ones tell what a full one takes. Nothing
 * is expected to take long until that is learnt.
 */
export function createWaitEstimate({
  lanes,
  batchRows,
  batchBytes
}: Pick<Limits, 'lanes' | 'batchRows' | 'batchBytes'>) {
  let batchMs = 0
  let attemptMs = 0

  /** How many batches these are, by the limit that makes them more. */
  const batches = (rows: number, bytes: number) => Math.max(rows / batchRows, bytes / batchBytes)

  return {
    /** Takes the time of an attempt that was written. */
    learn(rows: number, bytes: number, ms: number) {
      const fill = batches(rows, bytes)
      // A row that is larger than a batch goes alone, and counts for several.
      attemptMs = Math.max(ms, attemptMs + (ms - attemptMs) * weights.quicker)
      const change = ms / Math.max(1, fill) - batchMs
      batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
    },
    /** What the slowest of the last attempts took, of whatever size, in ms. */
    get attemptMs() {
      return attemptMs
    },
    /** Returns how long, in ms, the lanes are expected to take for these. */
    expectMs: (rows: number, bytes: number) => (batches(rows, bytes) * batchMs) / lanes
  }
}
