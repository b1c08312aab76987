/** Cuts attempts off that take long, once something has been committed that began later: they are slow, and not the database. */
import type { Clock } from '../shared/clock.ts'

/** When an attempt has taken this part of its limit, a probe begins. */
const patience = 1 / 2
/** Results come back in any order: it may have ended with the probe. It gets this part of its limit more, at least. */
const grace = 1 / 4

/**
 * Takes the store's `commit`, and a callback for its success. While the database commits nothing, nothing is cut off
 * but by the store's own limit: a stall is no reason for cancel requests and new connections.
 */
export function createCutOff(commit: () => Promise<unknown>, clock: Clock, onCommit: () => void) {
  let running: Promise<unknown> = Promise.resolve()
  let next: Promise<void> | undefined

  /** Resolves when something is committed that began after the call; rejects if that fails. One commit runs at a time. */
  function probe(): Promise<void> {
    next ??= running.then(() => {
      next = undefined
      const probing = commit().then(onCommit)
      running = probing.catch(() => {})
      return probing
    })
    return next
  }

  /** Watches an attempt, which has this limit; the function that it returns ends that. */
  return (limitMs: number, cutOff: () => void): (() => void) => {
    const began = clock.now()
    let hasEnded = false
    let cancel = clock.after(limitMs * patience, async () => {
      try {
        await probe()
        const leftMs = began + limitMs - clock.now()
        if (!hasEnded) cancel = clock.after(Math.max(limitMs * grace, leftMs), cutOff)
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

export type CutOff = ReturnType<typeof createCutOff>
