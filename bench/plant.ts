/** The one request that every load sends: its body is about 60 bytes, its id is random. */
import { randomInt } from 'node:crypto'

/** The secret of the caller `bench`. */
export const token = 'bench-secret-0123456789abcdef'

/** The header fields of every request. */
export const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }

/** The values of every row, besides its id and its write id. */
export const plant = { name: 'Monstera', tag: 'tropical' }

/** A body is these two with an id between them; all ids have one length, so one header fits all. */
export const bodyStart = '{"id":'
export const bodyEnd = `,${JSON.stringify(plant).slice(1)}`

/** The least and the greatest of what stands before the last nine digits of an id, in two ranges of ids. */
export const idStarts = {
  /** The int64 of 19 digits. */
  int64: [1_000_000_000, 9_223_372_035],
  /** Of 16 digits, below 2^53: what JavaScript's numbers hold exactly. */
  safe: [1_000_000, 9_007_198]
} as const
export type Ids = keyof typeof idStarts

/** Makes a body with a fresh id; the sign's place is never empty. */
export function makeBody(ids: Ids = 'int64'): string {
  const sign = randomInt(2) === 0 ? ' ' : '-'
  const [least, greatest] = idStarts[ids]
  const digits = `${randomInt(least, greatest + 1)}${String(randomInt(1_000_000_000)).padStart(9, '0')}`
  return `${bodyStart}${sign}${digits}${bodyEnd}`
}
