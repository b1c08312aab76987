/** The cores of a machine, shared evenly among the threads that have work. */
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
}

const first = ({ urgent, usual }: Queue) => urgent[0] ?? usual[0]

/** Makes the cores, and gives what makes a thread on them. */
export function createCores(events: Events, cores: number): () => Thread {
  const busy = new Set<Queue>()
  let since = 0
  let cancel = () => {}

  const share = () => Math.min(1, cores / busy.size)

  /** Takes what has been done since the last change from the work at hand. */
  function advance() {
    const done = (events.now() - since) * share()
    since = events.now()
    for (const queue of busy) (first(queue) as Work).left -= done
  }

  function plan() {
    cancel()
    if (busy.size === 0) return
    const least = Math.min(...[...busy].map((queue) => (first(queue) as Work).left))
    cancel = events.after(Math.max(0, least) / share(), finish)
  }

  function finish() {
    advance()
    const ended: Work[] = []
    for (const queue of busy) {
      const work = first(queue) as Work
      // What is less than a picosecond is a rounding error.
      if (work.left > 1e-9) continue
      ended.push(work)
      if (queue.urgent[0]) queue.urgent.shift()
      else queue.usual.shift()
      if (!first(queue)) busy.delete(queue)
    }
    for (const { done } of ended) done()
    plan()
  }

  return () => {
    const queue: Queue = { urgent: [], usual: [] }
    return {
      run(ms, done, isUrgent = false) {
        advance()
        queue[isUrgent ? 'urgent' : 'usual'].push({ left: ms, done })
        busy.add(queue)
        plan()
      }
    }
  }
}
