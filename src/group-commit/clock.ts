/** A source of time and chance, which tests replace. */

/** A clock. */
export interface Clock {
  /** Returns the time in ms, which never goes back. */
  now(): number
  /** Returns a number from 0 up to, but not including, 1. */
  random(): number
  /** Calls back once, after Node has read what has reached the process by now. */
  afterPoll(callback: () => void): void
  /** Calls back once after `ms`. The function that it returns cancels that. */
  after(ms: number, callback: () => void): () => void
}

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
