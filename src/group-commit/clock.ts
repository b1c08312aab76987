/** The time that passes, and how long to let it pass. */
import type { Clock } from './types.ts'

const shortestPauseMs = 20
const longestPauseMs = 1000

/** The machine's. */
export const systemClock: Clock = {
  now: () => performance.now(),
  random: Math.random,
  afterPoll: setImmediate,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  }
}

/**
 * Gives the pause after so many failures, 0 or more: exponential, from 10 ms to 1 s, with jitter, so that neither lanes
 * nor services repeat in step.
 */
export function pauseMs(failures: number, clock: Clock): number {
  return Math.min(longestPauseMs, shortestPauseMs * 2 ** failures) * (0.5 + clock.random() / 2)
}
