/**
 * Cuts off an attempt that exceeds its limit, once something that began after half of that limit has been committed. Then
 * the attempt is slow, and not the database.
 */
import type { Clock } from './clock.ts'

/** The part of its limit after which an attempt is suspected of being slow, and the store is asked to commit nothing. */
const partBeforeCommit = 1 / 2
/** The part of its limit that it gets after that commit at least: both may have ended together, and results come in any order. */
const partAfterCommit = 1 / 4

/** Watches an attempt with a limit, and calls `cutOff` when it is cut off. The function that it returns ends the watch. */
export type Watch = (limitMs: number, cutOff: () => void) => () => void

/**
 * Takes the store's `commitNothing`, and a callback for its success. While the database commits nothing, attempts end only by
 * the store's own limit: a stall is no reason for cancel requests and new connections.
 */
export function createCutOff(
  commitNothing: () => Promise<unknown>,
  clock: Clock,
  onCommit: () => void
): Watch {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<void> | undefined

  /** Resolves when a commit that began after the call has succeeded; rejects if it fails. One runs at a time. */
  function commit(): Promise<void> {
    next ??= running.then(() => {
      next = undefined
      const committing = commitNothing().then(onCommit)
      running = committing.catch(() => {})
      return committing
    })
    return next
  }

  return (limitMs, cutOff) => {
    const began = clock.now()
    let hasEnded = false
    let cancel = clock.after(limitMs * partBeforeCommit, async () => {
      try {
        await commit()
        const leftMs = began + limitMs - clock.now()
        if (!hasEnded) cancel = clock.after(Math.max(limitMs * partAfterCommit, leftMs), cutOff)
      } catch {
        // The database does not serve: nothing is cut off.
      }
    })
    return () => {
      hasEnded = true
      cancel()
    }
  }
}
