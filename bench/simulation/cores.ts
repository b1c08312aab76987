/** The cores of a machine, and the threads that take turns on them. */
import type { Events } from './events.ts'

/** Does one piece of work after the other. */
export interface Thread {
  /** Calls back when this much CPU time, in ms, has been given to it. What is urgent goes before what is not. */
  run(ms: number, done: () => void, isUrgent?: boolean): void
}

interface Work {
  left: number
  done: () => void
}

interface Queue {
  urgent: Work[]
  usual: Work[]
  /** How long it has had a core, in ms. */
  had: number
}

/** How long a thread keeps its core while others wait, in ms: assumed, Linux's default with two cores. */
const sliceMs = 1.4

const first = ({ urgent, usual }: Queue) => urgent[0] ?? usual[0]

/**
 * Makes the cores, and gives what makes a thread on them. A thread keeps its core until it has done what it was given, an
 * event loop a turn, or for a slice while others wait: one that wakes waits for a core. Linux would leave an event loop its
 * core for more than a turn (https://docs.kernel.org/scheduler/sched-eevdf.html); docs/decisions.md says why this does not.
 */
export function createCores(events: Events, cores: number): () => Thread {
  /** The first ones have the cores, the others wait. */
  const busy = new Set<Queue>()
  let since = 0
  let cancel = () => {}

  const running = () => [...busy].slice(0, cores)

  /** Takes what has been done since the last change from the work at hand. */
  function advance() {
    const passed = events.now() - since
    since = events.now()
    for (const queue of running()) {
      const work = first(queue) as Work
      work.left -= passed
      queue.had += passed
    }
  }

  function plan() {
    cancel()
    if (busy.size === 0) return
    const sliceOf = ({ had }: Queue) => (busy.size > cores ? sliceMs - had : Number.POSITIVE_INFINITY)
    const next = running().map((queue) => Math.min((first(queue) as Work).left, sliceOf(queue)))
    cancel = events.after(Math.max(0, Math.min(...next)), finish)
  }

  function finish() {
    advance()
    const ended: Work[] = []
    for (const queue of running()) {
      const work = first(queue) as Work
      // What is less than a picosecond is a rounding error.
      if (work.left <= 1e-9) {
        ended.push(work)
        if (queue.urgent[0]) queue.urgent.shift()
        else queue.usual.shift()
      }
      if (!first(queue)) busy.delete(queue)
      else if (busy.size > cores && queue.had >= sliceMs - 1e-9) {
        busy.delete(queue)
        enter(queue)
      }
    }
    for (const { done } of ended) done()
    plan()
  }

  function enter(queue: Queue) {
    if (busy.has(queue)) return
    queue.had = 0
    busy.add(queue)
  }

  return () => {
    const queue: Queue = { urgent: [], usual: [], had: 0 }
    return {
      run(ms, done, isUrgent = false) {
        advance()
        queue[isUrgent ? 'urgent' : 'usual'].push({ left: ms, done })
        enter(queue)
        plan()
      }
    }
  }
}
