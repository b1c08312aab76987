/** How long attempts take, and so how long a new row is expected to wait, how long a lock, and the limit of an attempt. */
import type { Kind } from './row.ts'
import type { Limits } from './types.ts'

/** The weight of a full batch in the average. One slow row makes a batch slow: a few of them must not refuse all others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }
/** The shortest slice; new rows have four times as long, and wait as long for a lock at least. And the longest for a lock, in ms. */
const shortestMs = 25
const longestLockMs = 250

/**
 * Learns only from new rows that were written: a failure says nothing about the store's speed, and a row that has failed
 * is one that may be slow (Karn's algorithm, RFC 6298, section 3). An attempt counts by how full it was, since only full
 * ones show what a full one takes. Until then, nothing is expected to take long.
 */
export function createEstimate({ lanes, batchRows, batchBytes, deadlineMs }: Limits) {
  /** What a full batch takes; and what the slowest of late took, of any size. */
  let batchMs = 0
  let slowMs = 0
  /** What an attempt takes on average, of any size (RFC 6298, section 2.3). */
  let usualMs = 0
  /** How often new rows were cut off since some were written: they get more time (RFC 6298, section 5.5). */
  let doubts = 0
  /** The store's own limit: a repeat is in time. */
  const longestMs = deadlineMs / 3

  const limit = (ms: number, doublings: number) =>
    Math.min(longestMs, Math.max(shortestMs, ms) * 2 ** doublings)
  const batches = (rows: number, bytes: number) => Math.max(rows / batchRows, bytes / batchBytes)

  return {
    learn(rows: number, bytes: number, ms: number) {
      doubts = 0
      slowMs = Math.max(ms, slowMs + (ms - slowMs) * weights.quicker)
      usualMs += (ms - usualMs) * (usualMs > 0 ? 1 / 8 : 1)
      // A row that is larger than a batch goes alone, and counts for several.
      const fill = batches(rows, bytes)
      const change = ms / Math.max(1, fill) - batchMs
      batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
    },
    doubt() {
      doubts++
    },
    /**
     * Returns how long the lanes are expected to take for these, in ms. If no lane is free, the newest attempt has run for
     * `busyMs`: that alone refuses nobody, as it may end at any time.
     */
    expectMs: (rows: number, bytes: number, busyMs?: number) =>
      (batches(rows, bytes) * batchMs) / lanes +
      (busyMs === undefined ? 0 : Math.min(longestMs, Math.max(slowMs, busyMs))),
    /**
     * Returns how long an attempt may take, in ms, and how long it waits for a lock. New rows wait as long as another
     * replica's write may have it; suspects 1 ms. Both double with the slice, and with the rests of a look-up.
     */
    limitsOf(kind: Kind, doublings: number) {
      if (kind === 'firstTrial' || kind === 'longTrial') {
        const limitMs = limit(2 * usualMs, doublings)
        return { limitMs, lockMs: Math.ceil(Math.min(2 ** doublings, limitMs)) }
      }
      const limitMs = limit(4 * Math.max(shortestMs, slowMs), kind === 'lookUp' ? doublings : doubts)
      // A wait for a lock ends in the first half of the limit, before the attempt is suspected of being slow (cut-off.ts).
      const lockMs = Math.min(longestLockMs, Math.max(shortestMs, 2 * slowMs), limitMs / 2)
      return { limitMs, lockMs: Math.ceil(lockMs) }
    }
  }
}

export type Estimate = ReturnType<typeof createEstimate>
