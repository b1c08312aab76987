/** The rate limit: how many requests a second each caller may make in this process, by a token bucket for each. */
import { type Clock, systemClock } from '../shared/clock.ts'

/** Takes a request from the bucket of a caller. Returns how many whole ones are left; undefined if there was none to take. */
export type TakeRequest = (caller: string) => number | undefined

/** One request, in the unit of the buckets: each gains `perSecond` of these in a millisecond, so whole milliseconds are added exactly. */
const requestUnits = 1_000

/**
 * Makes buckets that hold `perSecond` requests and gain as many in a second. So a caller that sends all at once, once a second,
 * is served, and in any one second at most `2 * perSecond - 1` requests are.
 */
export function createRateLimit(perSecond: number, clock: Pick<Clock, 'now'> = systemClock): TakeRequest {
  const capacity = perSecond * requestUnits
  /** How many units each bucket held at a time in ms. There are no more callers than names of tokens. */
  const buckets = new Map<string, { level: number; at: number }>()
  return (caller) => {
    const now = clock.now()
    const { level: before, at } = buckets.get(caller) ?? { level: capacity, at: now }
    const level = Math.min(capacity, before + (now - at) * perSecond)
    const isServed = level >= requestUnits
    buckets.set(caller, { level: isServed ? level - requestUnits : level, at: now })
    return isServed ? Math.floor(level / requestUnits) - 1 : undefined
  }
}
