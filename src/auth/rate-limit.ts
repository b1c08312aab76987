/** The rate limit: a token bucket for each caller, in this process. */
import { type Clock, systemClock } from '../shared/clock.ts'

/** Takes a token for a request of a caller. Returns how many whole tokens are left, or -1 if there was none to take. */
export type TakeToken = (caller: string) => number

/** A token in the unit of the buckets, of which each gains `perSecond` in a millisecond: whole numbers are added exactly. */
const token = 1_000

/**
 * Makes buckets that hold `perSecond` tokens and gain as many in a second. So a caller that sends all at once, once a second,
 * is served, and in any one second at most `2 * perSecond - 1` requests are.
 */
export function createRateLimit(perSecond: number, clock: Pick<Clock, 'now'> = systemClock): TakeToken {
  const capacity = perSecond * token
  /** What each bucket held at a time in ms. There are no more callers than names of tokens. */
  const buckets = new Map<string, { level: number; at: number }>()
  return (caller) => {
    const now = clock.now()
    const { level: before, at } = buckets.get(caller) ?? { level: capacity, at: now }
    const level = Math.min(capacity, before + (now - at) * perSecond)
    const isServed = level >= token
    buckets.set(caller, { level: isServed ? level - token : level, at: now })
    return isServed ? Math.floor(level / token) - 1 : -1
  }
}
