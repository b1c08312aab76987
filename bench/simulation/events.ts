/** Virtual time: what happens next happens now. */
import { setImmediate as settled } from 'node:timers/promises'
import type { Clock } from '../../src/group-commit/types.ts'

interface Event {
  at: number
  order: number
  callback: () => void
  isCancelled: boolean
}

/** Time in ms that moves from event to event, and chance that repeats itself. */
export interface Events extends Omit<Clock, 'soon'> {
  /** Lets all promises that have settled call back before the next event. */
  settle(): void
  /** Runs until `ms`. */
  runTo(ms: number): Promise<void>
}

/** Makes a clock at 0 ms; `random` gives numbers from 0 up to 1. */
export function createEvents(random: () => number): Events {
  const heap: Event[] = []
  let now = 0
  let count = 0
  let isSettling = false
  const isBefore = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.order < b.order)

  function push(event: Event) {
    let at = heap.push(event) - 1
    for (
      let parent = (at - 1) >> 1;
      at > 0 && isBefore(event, heap[parent] as Event);
      parent = (at - 1) >> 1
    ) {
      heap[at] = heap[parent] as Event
      at = parent
    }
    heap[at] = event
  }

  function pop(): Event | undefined {
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || last === first) return first
    let at = 0
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++
      if (!isBefore(heap[child] as Event, last)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
    return first
  }

  return {
    now: () => now,
    random,
    after(ms, callback) {
      const event = { at: now + ms, order: count++, callback, isCancelled: false }
      push(event)
      return () => {
        event.isCancelled = true
      }
    },
    settle() {
      isSettling = true
    },
    async runTo(ms) {
      while (heap[0] && heap[0].at <= ms) {
        const event = pop() as Event
        if (event.isCancelled) continue
        now = event.at
        event.callback()
        if (isSettling) await settled()
        isSettling = false
      }
      now = ms
    }
  }
}
