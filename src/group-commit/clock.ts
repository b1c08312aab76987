/** The clock, and the pauses after failures. */
import type { Clock } from './types.ts'

const shortestPauseMs = 20
const longestPauseMs = 1000

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  random: Math.random,
  afterPoll: setImmediate,
  after(ms, callback) {
    const timer = setTimeout(callback, ms)
    return () => clearTimeout(timer)
  }
}

/** Returns the pause after this many failures, 0 or more: exponential, from 10 ms to 1 s, with jitter so that lanes and replicas spread. */
export function pauseMs(failures: number, clock: Clock): number {
  return Math.min(longestPauseMs, shortestPauseMs * 2 ** failures) * (0.5 + clock.random() / 2)
}

/** What is held back while the database does not serve. */
export type Held = 'nothing' | 'suspects' | 'everything'

/** Makes the common pauses of all lanes, which grow until something is written. Calls back when one ends. */
export function createBackOff(clock: Clock, onEnd: () => void) {
  let held: Held = 'nothing'
  let failures = 0
  let cancel: (() => void) | undefined

  function end() {
    if (held === 'nothing') return
    held = 'nothing'
    cancel?.()
    onEnd()
  }

  return {
    get held() {
      return held
    },
    /** Begins a pause; if one is on already, it may hold more than before. */
    begin(what: Held) {
      if (held === 'nothing') cancel = clock.after(pauseMs(failures++, clock), end)
      if (held !== 'everything') held = what
    },
    end,
    /** Something was written: the next pause is a short one. */
    clear() {
      failures = 0
      end()
    }
  }
}
