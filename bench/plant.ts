/** The one request that every load sends: its body is about 60 bytes, its id random among the int64 of 19 digits. */
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

/** Makes a body with a fresh id; the sign's place is never empty. */
export function makeBody(): string {
  const sign = randomInt(2) === 0 ? ' ' : '-'
  const digits = `${randomInt(1_000_000_000, 9_223_372_036)}${String(randomInt(1_000_000_000)).padStart(9, '0')}`
  return `${bodyStart}${sign}${digits}${bodyEnd}`
}
