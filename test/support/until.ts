/** Waiting for what a slow machine takes its time to show. */
import { setTimeout as sleep } from 'node:timers/promises'

const patienceMs = 30_000

/**
 * Looks until what is seen is what is wanted, and gives what was seen last: after 30 s that is something else. A wait
 * ends as soon as it can, so that its length costs nothing where all is well.
 */
export async function until<T>(look: () => T | Promise<T>, isWanted: (seen: T) => boolean): Promise<T> {
  const end = performance.now() + patienceMs
  for (;;) {
    const seen = await look()
    if (isWanted(seen) || performance.now() > end) return seen
    await sleep(20)
  }
}
