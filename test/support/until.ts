/** Waiting by polling, for an event that nothing reports. */
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

/** How long anything may take, however busy the machine: a wait that ends here has found a fault. */
const limitMs = 180_000
const longestPauseMs = 250

/**
 * Polls until a value is wanted, by default any truthy one, and returns it; an error counts as no value. The pauses grow
 * with the wait, so that it is at most a tenth longer than necessary. Throws after three minutes, with the last value.
 */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  isWanted: (seen: T) => boolean = Boolean
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
      throw new Error(`not within ${Math.round(waitedMs / 1_000)} s: ${what}; last seen: ${last}`, {
        cause
      })
    }
    await sleep(Math.min(longestPauseMs, 10 + waitedMs / 10))
  }
}

/** Predicates: whether what is seen is this value, or has this length. */
export const is = (value: unknown) => (seen: unknown) => seen === value
export const hasLength = (length: number) => (seen: { length: number }) => seen.length === length
