/** Node's event loop, and that of others: https://nodejs.org/learn/asynchronous-work/event-loop-timers-and-nexttick. */
import type { Thread } from './cores.ts'

/** Makes an event loop on a thread; CPU times in ms. A turn takes what has come by its start; what comes later waits. */
export function createEventLoop(thread: Thread) {
  let arrived: { ms: number; done: () => void }[] = []
  let ends: (() => void)[] = []
  let isTurning = false

  function turn() {
    const taken = arrived
    arrived = []
    isTurning = taken.length > 0
    if (!isTurning) return
    for (const { ms, done } of taken) thread.run(ms, done)
    thread.run(0, endTurn)
  }

  function endTurn() {
    const due = ends
    ends = []
    for (const end of due) end()
    turn()
  }

  return {
    /** Takes what has come from outside, in this turn where none runs, otherwise in the next. */
    read(ms: number, done: () => void) {
      arrived.push({ ms, done })
      if (!isTurning) turn()
    },
    /** Goes on with what was read: behind what others of the same event do, before the next event. */
    run(ms: number, done: () => void) {
      thread.run(ms, done, true)
    },
    /** Calls back at the end of the turn. */
    soon(callback: () => void) {
      ends.push(callback)
    }
  }
}
