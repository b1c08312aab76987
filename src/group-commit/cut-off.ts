/** Cuts attempts off that are late, once something has been committed that began after that: they are slow, and not the database. */
import type { Attempt } from './row.ts'
import type { Clock } from './types.ts'

/** Results come back in any order: what is late may have ended with what was committed. It gets this part of its time more. */
const grace = 1 / 4

/**
 * Takes the store's `commit`, and a callback for its success. While the database commits nothing, nothing is cut off
 * but by the store's own limit: a stall is no reason for cancel requests and new connections.
 */
export function createCutOff(commit: () => Promise<unknown>, clock: Clock, onCommit: () => void) {
  const late = new Set<Attempt>()
  let isProbing = false

  /** Commits something now, one at a time; and again for what was late only after that had begun. */
  async function probe() {
    if (isProbing) return
    isProbing = true
    const began = clock.now()
    const isServing = await commit().then(
      () => true,
      () => false
    )
    isProbing = false
    if (!isServing) return
    onCommit()
    committed(began)
    if (late.size > 0) void probe()
  }

  /** Something was committed that began at this time. */
  function committed(began: number) {
    for (const attempt of late) {
      if (attempt.lateSince > began) continue
      late.delete(attempt)
      attempt.cancelTimer = clock.after((attempt.lateSince - attempt.began) * grace, attempt.giveUp)
    }
  }

  return {
    committed,
    /** Watches an attempt, which is late after so long. */
    watch(attempt: Attempt, limitMs: number) {
      attempt.cancelTimer = clock.after(limitMs, () => {
        attempt.lateSince = clock.now()
        late.add(attempt)
        void probe()
      })
    },
    /** An attempt has ended. */
    forget(attempt: Attempt) {
      attempt.cancelTimer()
      late.delete(attempt)
    }
  }
}
