/** A clock that only moves when a test moves it. */
import type { Clock } from '../../src/group-commit/types.ts'

interface Timer {
  at: number
  callback: () => void
}

/** Lets everything run that needs no time. A turn of the event loop: after ticks alone, Node reports no unhandled rejection. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Makes a clock at 0 ms. */
export function createVirtualClock(random: () => number) {
  const timers = new Set<Timer>()
  const queue: (() => void)[] = []
  let now = 0

  function next() {
    let first: Timer | undefined
    for (const timer of timers) if (first === undefined || timer.at < first.at) first = timer
    return first
  }
  const clock: Clock = {
    now: () => now,
    random,
    afterPoll: (callback) => void queue.push(callback),
    after(ms, callback) {
      const timer = { at: now + ms, callback }
      timers.add(timer)
      return () => void timers.delete(timer)
    }
  }

  /** Ends a turn of the event loop. */
  function endTurn() {
    for (const callback of queue.splice(0)) callback()
  }

  /** Ends turns until nothing is left to do now. */
  async function settle() {
    await settled()
    while (queue.length > 0) {
      endTurn()
      await settled()
    }
  }

  /** Moves the clock to `at`; timers of one moment ring in one turn. */
  async function moveTo(at: number) {
    await settle()
    for (let timer = next(); timer && timer.at <= at; timer = next()) {
      now = timer.at
      for (const due of timers) {
        if (due.at <= now && timers.delete(due)) due.callback()
      }
      await settle()
    }
    now = at
  }

  return { ...clock, endTurn, moveTo }
}
