/** Random numbers that a seed repeats. */

/** Draws numbers; the same seed draws the same ones. */
export interface Random {
  /** An integer from 0 to `below` - 1. */
  integer(below: number): number
  /** True once in `n` draws. */
  oneIn(n: number): boolean
  pick<T>(values: readonly T[]): T
}

/** Makes a generator (mulberry32) from a seed of 32 bits. */
export function createRandom(seed: number): Random {
  let state = seed | 0
  const integer = (below: number) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
  return {
    integer,
    oneIn: (n) => integer(n) === 0,
    pick: (values) => values[integer(values.length)] as (typeof values)[number]
  }
}
