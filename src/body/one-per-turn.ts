/** A queue of callbacks that take some milliseconds each. It calls one in each turn of the event loop, to delay nothing else. */
export class OnePerTurn {
  readonly #waiting = new Set<() => void>()
  #isScheduled = false

  /** Calls back in a turn of its own, after the callbacks that were added before. */
  add(callback: () => void): void {
    this.#waiting.add(callback)
    this.#schedule()
  }

  /** Forgets a callback that has not been called yet. */
  delete(callback: () => void): void {
    this.#waiting.delete(callback)
  }

  #schedule() {
    if (!this.#isScheduled && this.#waiting.size > 0) setImmediate(() => this.#run())
    this.#isScheduled = this.#waiting.size > 0
  }

  #run() {
    this.#isScheduled = false
    const [next] = this.#waiting
    if (next) this.#waiting.delete(next)
    this.#schedule()
    next?.()
  }
}
