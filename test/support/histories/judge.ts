/** Judges a history: whether for each id one order of its creates explains every response and the table at the end. */
import { type Field, fields, isSamePlant, type Plant } from '../plants.ts'
import type { Operation } from './rivals.ts'

/** A row of the table when the load has ended and everything is healed. */
export interface StoredRow extends Plant {
  id: string
}

/** What a response claims of its operation; `open` claims nothing: the plant may be stored, or be stored later. */
type Claim = 'stored' | 'taken' | 'reused' | 'nothing stored' | 'open' | 'malformed'

/**
 * Returns a line for each id whose creates are not explained. Takes a whole history, and all rows that have its ids when
 * everything has ended. Operations with one key are one write, made by any of them; without a key each is a write of its own.
 */
export function judgeHistory(operations: Operation[], rows: StoredRow[]): string[] {
  const rowsById = Map.groupBy(rows, ({ id }) => id)
  const operationsById = Map.groupBy(operations, ({ id }) => id)
  return [...new Set([...rowsById.keys(), ...operationsById.keys()])].flatMap((id) => {
    const [rivals, stored] = [operationsById.get(id) ?? [], rowsById.get(id) ?? []]
    return isExplained(rivals, stored)
      ? []
      : `no order explains ${JSON.stringify({ stored, rivals })}`
  })
}

function isExplained(rivals: Operation[], [row, ...others]: StoredRow[]): boolean {
  const claims = rivals.map((operation) => ({ operation, claim: claimOf(operation) }))
  if (others.length > 0 || claims.some(({ claim }) => claim === 'malformed')) return false
  if (row === undefined)
    return claims.every(({ claim }) => claim === 'open' || claim === 'nothing stored')
  const writers = claims.filter(
    ({ operation, claim }) =>
      (claim === 'stored' || claim === 'open') && isSamePlant(operation, row)
  )
  /** Each write that can have stored the row, and when it began. */
  const writes = Map.groupBy(writers, ({ operation }) => operation.key ?? operation)
  return [...writes].some(([write, attempts]) => {
    const began = Math.min(...attempts.map(({ operation }) => operation.began))
    return claims.every(({ operation, claim }) => {
      const isWinner = (operation.key ?? operation) === write
      const isSame = isSamePlant(operation, row)
      // Two equal times have no order.
      const isEarlier = (operation.ended ?? Number.POSITIVE_INFINITY) < began
      if (claim === 'stored') return isWinner && isSame
      if (claim === 'taken') return !isWinner && !isEarlier
      return claim !== 'reused' || (isWinner && !isSame && !isEarlier)
    })
  })
}

function claimOf(operation: Operation): Claim {
  const { response } = operation
  if (response === undefined) return 'open'
  const { status, body } = response
  if ('error' in body) {
    if (status !== 400 || !Number.isInteger(body.error) || typeof body.message !== 'string')
      return 'malformed'
    if (body.error === 409) return 'taken'
    if (body.error === 422 && body.message.includes('Idempotency-Key')) return 'reused'
    const isOpen =
      body.error === 500 || (body.error === 503 && !body.message.includes('stored nothing'))
    return isOpen ? 'open' : 'nothing stored'
  }
  const isPlant = Object.keys(body).every((name) => fields.includes(name as Field))
  return status === 200 && isPlant && isSamePlant(operation, body) ? 'stored' : 'malformed'
}
