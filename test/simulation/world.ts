/** Virtual time: whatever is due happens in one order, which a seed repeats. */
import { createRandom, type Random } from '../support/random.ts'

interface Due {
  readonly at: number
  readonly order: number
  readonly run: () => unknown
}

const isBefore = (one: Due, other: Due) =>
  one.at < other.at || (one.at === other.at && one.order < other.order)

/** A simulated world: its time in ms, its chance, what was seen in it, and the rules that were broken. */
export class World {
  now = 0
  readonly random: Random
  readonly trace: string[] | undefined
  readonly violations: string[] = []
  /** When transactions were put into a log, and for which process. */
  readonly inserts = new Map<string, { at: number; by: string }>()
  /** From when to when something other than a row is wrong. */
  readonly troubles: [number, number][] = []
  /** When processes have sent statements that insert a row, by process, id and write id. */
  readonly sends = new Map<string, number[]>()
  /** When those of these were sent whose results they have. */
  readonly known = new Map<string, number[]>()
  /** When responses of the database have reached processes that stood still, by process, id and write id. */
  readonly responses = new Map<string, number>()
  #heap: Due[] = []
  #order = 0
  /** When points were reached. */
  readonly #reached = new Map<string, number[]>()
  /** Called at each point that faults can be tied to, with its count. */
  onPoint: (point: string, count: number, context: unknown) => void = () => {}

  constructor(seed: number, isTraced: boolean) {
    this.random = createRandom(seed)
    this.trace = isTraced ? [] : undefined
  }

  log(who: string, what: string) {
    this.trace?.push(`${this.now.toFixed(2).padStart(9)}  ${who.padEnd(9)} ${what}`)
  }

  violate(what: string) {
    this.log('VIOLATION', what)
    this.violations.push(what)
  }

  /** Something other than a row is wrong for this long. */
  trouble(ms: number) {
    this.troubles.push([this.now, this.now + ms])
  }

  /** Reports that something was reached that a fault may be tied to. */
  reach(point: string, context?: unknown) {
    const times = this.#reached.get(point) ?? []
    this.#reached.set(point, times)
    this.onPoint(point, times.push(this.now), context)
  }

  /** Whether one of these points was reached in a time. */
  hasReached(points: readonly string[], from: number, to: number): boolean {
    return points.some((point) => this.#reached.get(point)?.some((at) => from <= at && at <= to))
  }

  /** Draws a number from 0 up to 1. */
  chance = () => this.random.integer(2 ** 30) / 2 ** 30

  /** Draws a duration: mostly about `typicalMs`, sometimes ten times and seldom a hundred times as long. */
  duration(typicalMs: number): number {
    const stretch = this.random.oneIn(25) ? (this.random.oneIn(8) ? 100 : 10) : 1
    return typicalMs * stretch * (0.5 + this.chance())
  }

  after(ms: number, run: Due['run']) {
    const heap = this.#heap
    const due = { at: this.now + ms, order: this.#order++, run }
    let index = heap.push(due) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isBefore(due, heap[parent] as Due)) break
      heap[index] = heap[parent] as Due
      index = parent
    }
    heap[index] = due
  }

  #pop() {
    const heap = this.#heap
    const last = heap.pop() as Due
    if (heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Due, heap[child] as Due)) child++
      if (!isBefore(heap[child] as Due, last)) break
      heap[index] = heap[child] as Due
      index = child
    }
    heap[index] = last
  }

  /** Lets time pass until `at`, or until a rule is broken. */
  async run(at: number) {
    for (let due = this.#heap[0]; due && due.at <= at; due = this.#heap[0]) {
      this.#pop()
      this.now = due.at
      const turn = due.run()
      if (turn instanceof Promise) await turn
      if (this.violations.length > 0) return
    }
    this.now = at
  }
}
