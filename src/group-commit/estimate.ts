/** How long attempts take, and from that how long a new row is expected to wait, and the time limits of an attempt. */
import type { Kind } from './row.ts'
import type { Limits } from './types.ts'

/** The weight of a full batch in the average. One slow row makes a batch slow, and a few of them must not refuse all others. */
const weights = { quicker: 1 / 4, slower: 1 / 16 }
/** The shortest limit of a trial; also the shortest wait of new rows for a lock, whose attempts have at least four times as long. */
const shortestMs = 25
/** The longest wait of new rows for a lock. */
const longestLockMs = 250

/** What was learned from attempts, and what follows for new ones. */
export interface Estimate {
  /** Learns from an insert of new rows that were written. */
  learn(rows: number, bytes: number, ms: number): void
  /** New rows were cut off: the next ones get twice the time, until some are written (RFC 6298, section 5.5). */
  noteCutOff(): void
  /**
   * Returns how long the lanes are expected to take for these rows and bytes, in ms. If no lane is free, `busyMs` is how long
   * the newest attempt has run. That alone refuses nobody, because the attempt may end at any time.
   */
  expectMs(rows: number, bytes: number, busyMs?: number): number
  /**
   * Returns how long an attempt may take, and how long it waits for a lock, in ms. For a trial both are doubled this often,
   * for a look-up the limit. New rows wait for a lock as long as another replica's write may hold it; a trial begins at 1 ms.
   */
  limitsOf(kind: Kind, doublings: number): { limitMs: number; lockMs: number }
}

/**
 * Learns only from new rows that were written: a failure says nothing about the store's speed, and a row that has failed
 * before may be slow itself (Karn's algorithm, RFC 6298, section 3). An attempt counts by how full it was, because only full
 * ones show what a full one takes. Until something is learned, nothing is expected to take long.
 */
export function createEstimate({ lanes, batchRows, batchBytes, deadlineMs }: Limits): Estimate {
  /** How long a full batch takes on average. */
  let batchMs = 0
  /** How long the slowest of the latest attempts took, whatever its size; quicker ones lower it slowly. */
  let slowMs = 0
  /** How long an attempt takes on average, whatever its size (RFC 6298, section 2.3). */
  let usualMs = 0
  /** How often new rows were cut off since some were written. */
  let cutOffsSinceSuccess = 0
  /** The store's own limit of an attempt, which leaves time for a repeat. */
  const longestMs = deadlineMs / 3

  const limit = (ms: number, doublings: number) =>
    Math.min(longestMs, Math.max(shortestMs, ms) * 2 ** doublings)
  const batches = (rows: number, bytes: number) => Math.max(rows / batchRows, bytes / batchBytes)

  return {
    learn(rows, bytes, ms) {
      cutOffsSinceSuccess = 0
      slowMs = Math.max(ms, slowMs + (ms - slowMs) * weights.quicker)
      usualMs += (ms - usualMs) * (usualMs > 0 ? 1 / 8 : 1)
      // A row that is larger than a batch goes alone, and counts as several batches.
      const fill = batches(rows, bytes)
      const change = ms / Math.max(1, fill) - batchMs
      batchMs += change * (change < 0 ? weights.quicker : weights.slower) * Math.min(1, fill)
    },
    noteCutOff() {
      cutOffsSinceSuccess++
    },
    expectMs: (rows, bytes, busyMs) =>
      (batches(rows, bytes) * batchMs) / lanes +
      (busyMs === undefined ? 0 : Math.min(longestMs, Math.max(slowMs, busyMs))),
    limitsOf(kind, doublings) {
      if (kind === 'firstTrial' || kind === 'longTrial') {
        const limitMs = limit(2 * usualMs, doublings)
        return { limitMs, lockMs: Math.ceil(Math.min(2 ** doublings, limitMs)) }
      }
      const limitMs = limit(
        4 * Math.max(shortestMs, slowMs),
        kind === 'lookUp' ? doublings : cutOffsSinceSuccess
      )
      // A wait for a lock ends in the first half of the limit, before the attempt is suspected of being slow (cut-off.ts).
      const lockMs = Math.min(longestLockMs, Math.max(shortestMs, 2 * slowMs), limitMs / 2)
      return { limitMs, lockMs: Math.ceil(lockMs) }
    }
  }
}
