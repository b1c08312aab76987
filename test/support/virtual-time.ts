/** Time that only moves when a test moves it, in place of Node's timers and clock. */

interface Timer {
  at: number
  callback: () => void
}

const { setTimeout, clearTimeout, setImmediate } = globalThis
const { random } = Math

/** Lets everything run that needs no time. A turn of the event loop: after ticks alone, Node reports no unhandled rejection. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Begins virtual time at 0 ms, until `restore` is called, and puts `dice` in place of Math.random. */
export function installVirtualTime(dice: () => number) {
  const timers = new Set<Timer>()
  const queue: (() => void)[] = []
  let now = 0

  Object.assign(globalThis, {
    setImmediate: (callback: () => void) => void queue.push(callback),
    setTimeout(callback: () => void, ms: number) {
      const timer = { at: now + ms, callback }
      timers.add(timer)
      return timer
    },
    clearTimeout: (timer: Timer) => void timers.delete(timer)
  })
  Object.assign(performance, { now: () => now })
  Math.random = dice

  function restore() {
    Object.assign(globalThis, { setTimeout, clearTimeout, setImmediate })
    Reflect.deleteProperty(performance, 'now')
    Math.random = random
  }

  function next() {
    let first: Timer | undefined
    for (const timer of timers) if (first === undefined || timer.at < first.at) first = timer
    return first
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

  /** Moves time to `at`; timers of one moment ring in one turn. */
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

  return { endTurn, moveTo, restore }
}
