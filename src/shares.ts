/** A budget that callers share: none of them can use it up. */

/**
 * A budget of rows or bytes. A caller that holds less than what is still free may take more (dynamic thresholds, Choudhury
 * and Hahne 1998): alone it gets half of the budget and the rest of what it takes last, of two each gets a third.
 */
export class Shares {
  readonly limit: number
  #held = 0
  readonly #byCaller = new Map<string, number>()

  constructor(limit: number) {
    this.limit = limit
  }

  /** What all callers hold together. */
  get held(): number {
    return this.#held
  }

  /** What a caller has of what all hold, 0 to 1. */
  portion(caller: string): number {
    return (this.#byCaller.get(caller) ?? 0) / Math.max(1, this.#held)
  }

  /** Whether a caller may take so much now. */
  fits(caller: string, amount: number): boolean {
    const free = this.limit - this.#held
    return amount <= free && (this.#byCaller.get(caller) ?? 0) < free
  }

  /** Takes so much for a caller, if it may; tells whether it has. */
  take(caller: string, amount: number): boolean {
    if (!this.fits(caller, amount)) return false
    this.#held += amount
    this.#byCaller.set(caller, (this.#byCaller.get(caller) ?? 0) + amount)
    return true
  }

  /** Gives back what a caller has taken, or a part of it. */
  release(caller: string, amount: number): void {
    this.#held -= amount
    const rest = (this.#byCaller.get(caller) ?? 0) - amount
    if (rest === 0) this.#byCaller.delete(caller)
    else this.#byCaller.set(caller, rest)
  }
}
