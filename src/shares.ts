import assert from 'node:assert'

/**
 * A budget of rows or bytes that callers share, so that none of them can use it up. A caller may take more as long as it
 * holds less than what is free (dynamic thresholds, Choudhury and Hahne 1998). So a caller alone gets half of the budget, and
 * two get a third each. What a caller takes last may exceed that.
 */
export class Shares {
  readonly #limit: number
  #held = 0
  /** What each caller holds, as long as it holds anything. */
  readonly #byCaller = new Map<string, { held: number }>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** What all callers hold together. */
  get held(): number {
    return this.#held
  }

  /** Returns a caller's part of what all callers hold, 0 to 1. */
  portion(caller: string): number {
    return (this.#byCaller.get(caller)?.held ?? 0) / Math.max(1, this.#held)
  }

  /** Returns whether a caller may take an amount now. */
  fits(caller: string, amount: number): boolean {
    const free = this.#limit - this.#held
    return amount <= free && (this.#byCaller.get(caller)?.held ?? 0) < free
  }

  /** Takes an amount for a caller, if it may; returns whether it did. */
  take(caller: string, amount: number): boolean {
    if (!this.fits(caller, amount)) return false
    this.#held += amount
    const account = this.#byCaller.get(caller)
    if (account) account.held += amount
    else this.#byCaller.set(caller, { held: amount })
    return true
  }

  /** Releases all or a part of what a caller has taken. Throws an AssertionError for more than it holds. */
  release(caller: string, amount: number): void {
    if (amount === 0) return
    const account = this.#byCaller.get(caller)
    assert(account && account.held >= amount, 'only what was taken is released')
    this.#held -= amount
    account.held -= amount
    if (account.held === 0) this.#byCaller.delete(caller)
  }
}
