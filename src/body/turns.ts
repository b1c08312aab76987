/** Work that takes some milliseconds, one piece in each turn of the event loop: many at once would hold up all others. */
export class Turns {
  readonly #waiting = new Set<() => void>()
  #isScheduled = false

  /** Calls back in a turn of its own, after those that were added before. */
  add(callback: () => void): void {
    this.#waiting.add(callback)
    this.#schedule()
  }

  /** Forgets a callback that was not called yet. */
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
