/** Waiting for an event that only a look can show. */
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { scaled } from './slowness.ts'

const longestPauseMs = 250

/**
 * Looks until what is seen is wanted, by default anything truthy, and returns it. A look that throws shows nothing yet.
 * The pauses grow with the wait, which is at most a twentieth longer than it must be. Throws beyond `limitMs`, with
 * what was seen last.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  isWanted: (seen: T) => boolean = Boolean,
  limitMs = scaled(60_000)
): Promise<NonNullable<T>> {
  const began = performance.now()
  for (;;) {
    let seen: T | undefined
    let cause: unknown
    try {
      seen = await look()
      if (isWanted(seen)) return seen as NonNullable<T>
    } catch (error) {
      cause = error
    }
    const waitedMs = performance.now() - began
    if (waitedMs > limitMs) {
      const last = inspect(cause ?? seen).slice(0, 1_000)
      throw new Error(`not within ${Math.round(waitedMs / 1_000)} s: ${what}; seen last: ${last}`, { cause })
    }
    await sleep(Math.min(longestPauseMs, 5 + waitedMs / 20))
  }
}
