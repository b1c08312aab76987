/** Time and chance, which tests replace. */

/** Time, in ms and never going back, and chance, from 0 up to 1. */
export interface Clock {
  now(): number
  random(): number
  /** Calls back once, after what has reached the process by now was read. */
  afterPoll(callback: () => void): void
  /** Calls back once after `ms`, unless the function that it returns is called before. */
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
