/**
 * A budget of rows or bytes. Callers share it, so that no caller can use all of it. A caller may
 * take more as long as it holds less than what is free (dynamic thresholds, Choudhury and Hahne
 * 1998). So one caller alone gets half of the budget, and two callers get a third each. The last
 * amount that a caller takes may exceed its share.
 */
export class Shares {
  readonly #limit: number
  #held = 0
  /** The amounts that callers hold. A caller that holds nothing is not in it. */
  readonly #byCaller = new Map<string, number>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Returns a caller's part of what all callers hold, from 0 to 1. */
  portion(caller: string): number {
    return this.#heldBy(caller) / Math.max(1, this.#held)
  }

  /** Returns whether a caller may take this amount now. */
  fits(caller: string, amount: number): boolean {
    const free = this.#limit - this.#held
    return amount <= free && this.#heldBy(caller) < free
  }

  /** Takes an amount for a caller if it may have it. Returns whether it was taken. */
  take(caller: string, amount: number): boolean {
    if (!this.fits(caller, amount)) return false
    this.#held += amount
    this.#byCaller.set(caller, this.#heldBy(caller) + amount)
    return true
  }

  /** Releases all or a part of what a caller has taken. */
  release(caller: string, amount: number): void {
    const left = this.#heldBy(caller) - amount
    this.#held -= amount
    if (left > 0) this.#byCaller.set(caller, left)
    else this.#byCaller.delete(caller)
  }

  #heldBy(caller: string): number {
    return this.#byCaller.get(caller) ?? 0
  }
}
