/**
 * A budget of rows or bytes that callers share, so that none of them can use it up. A caller that holds less than
 * what is still free may take more (dynamic thresholds, Choudhury and Hahne 1998). Alone it gets half of the budget, and
 * the rest of what it takes last; two callers get a third each.
 */
export class Shares {
  readonly #limit: number
  #held = 0
  readonly #byCaller = new Map<string, number>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** What all callers hold together. */
  get held(): number {
    return this.#held
  }

  /** Returns a caller's part of what all callers hold, 0 to 1. */
  portion(caller: string): number {
    return (this.#byCaller.get(caller) ?? 0) / Math.max(1, this.#held)
  }

  /** Returns whether a caller may take an amount now. */
  fits(caller: string, amount: number): boolean {
    const free = this.#limit - this.#held
    return amount <= free && (this.#byCaller.get(caller) ?? 0) < free
  }

  /** Takes an amount for a caller, if it may; returns whether it did. */
  take(caller: string, amount: number): boolean {
    if (!this.fits(caller, amount)) return false
    this.#held += amount
    this.#byCaller.set(caller, (this.#byCaller.get(caller) ?? 0) + amount)
    return true
  }

  /** Releases all or a part of what a caller has taken. */
  release(caller: string, amount: number): void {
    this.#held -= amount
    const rest = (this.#byCaller.get(caller) ?? 0) - amount
    if (rest === 0) this.#byCaller.delete(caller)
    else this.#byCaller.set(caller, rest)
  }
}
