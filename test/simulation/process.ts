/** A simulated Node process and its event loop. */
import type { World } from './world.ts'

const realSetImmediate = globalThis.setImmediate
/** Lets the promises and ticks of a callback run out. */
const drained = () => new Promise<void>((resolve) => realSetImmediate(resolve))

/** The process whose code runs now. */
let current: Process | undefined

/** Returns the process whose code runs now; undefined outside of all. */
export const runningProcess = (): Process | undefined => current

/** Returns the process whose code runs now. */
export function currentProcess(): Process {
  if (!current) throw new Error('no simulated process is running')
  return current
}

/** What `setTimeout` returns. */
export class Timer {
  readonly owner: Process
  readonly at: number
  readonly callback: () => void
  constructor(owner: Process, at: number, callback: () => void) {
    this.owner = owner
    this.at = at
    this.callback = callback
  }
  ref() {
    return this
  }
  unref() {
    return this
  }
}

/** Runs what reaches it in turns of an event loop: timers, then what has come from the network, then immediates. */
export class Process {
  readonly name: string
  readonly world: World
  /** Stands for `connect` of `node:net`. */
  readonly connect: (port: number, address: string) => unknown
  /** How far its clocks are from the world's: the wall clock can jump, the monotonic one starts with the process. */
  wallOffsetMs: number
  readonly clockOffsetMs: number
  isDead = false
  /** The last that it has drawn. */
  lastUuid: string | undefined = undefined
  /** Called when it dies. */
  readonly onDeath: (() => void)[] = []
  /** When it last resumed after it was stopped. */
  resumedAt = 0
  /** It stands still, as SIGSTOP and a paused machine make it. */
  isPaused = false
  #timers: Timer[] = []
  #inbox: (() => void)[] = []
  #immediates: (() => void)[] = []
  #wakesAt = Number.POSITIVE_INFINITY

  constructor(world: World, name: string, connect: (port: number, address: string) => unknown) {
    this.world = world
    this.wallOffsetMs = world.random.integer(2 ** 30)
    this.clockOffsetMs = world.random.integer(2 ** 20)
    this.name = name
    this.connect = connect
  }

  /** Something reaches the process from outside. */
  receive(job: () => void) {
    this.#inbox.push(job)
    this.#wake(this.world.now + 0.05 * this.world.chance())
  }

  setTimer(callback: () => void, ms = 1) {
    // As Node does (lib/internal/timers.js).
    const timer = new Timer(this, this.world.now + (ms >= 1 ? Math.trunc(ms) : 1), callback)
    this.#timers.push(timer)
    this.#wake(timer.at)
    return timer
  }

  clearTimer(timer: Timer) {
    const index = this.#timers.indexOf(timer)
    if (index >= 0) this.#timers.splice(index, 1)
  }

  setImmediate(callback: () => void) {
    this.#immediates.push(callback)
    this.#wake(this.world.now)
    return {}
  }

  /** Stops it, as SIGSTOP does. */
  pause() {
    this.isPaused = true
  }

  resume() {
    if (!this.isPaused) return
    this.isPaused = false
    this.resumedAt = this.world.now
    this.#wake(this.world.now)
  }

  /** Ends it, as SIGKILL does. */
  die() {
    this.isDead = true
    this.world.log(this.name, 'is killed')
    for (const callback of this.onDeath) callback()
  }

  #wake(at: number) {
    if (at >= this.#wakesAt) return
    this.#wakesAt = at
    this.world.after(at - this.world.now, () => (this.#wakesAt === at ? this.#turn() : undefined))
  }

  async #turn() {
    this.#wakesAt = Number.POSITIVE_INFINITY
    if (this.isPaused || this.isDead) return
    const { now } = this.world
    const due = this.#timers.filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)
    for (const timer of due) {
      if (!this.#timers.includes(timer)) continue
      this.clearTimer(timer)
      await this.#run(timer.callback)
    }
    for (const job of this.#inbox.splice(0)) await this.#run(job)
    for (const callback of this.#immediates.splice(0)) await this.#run(callback)
    // A turn takes some time, or one that causes the next would never end.
    if (this.#inbox.length + this.#immediates.length > 0) this.#wake(now + 0.01)
    for (const { at } of this.#timers) this.#wake(Math.max(at, now))
  }

  async #run(callback: () => void) {
    if (this.isDead) return
    current = this
    try {
      callback()
      await drained()
    } catch (error) {
      this.world.violate(`${this.name} crashes: ${(error as Error).stack}`)
    }
    current = undefined
  }
}
