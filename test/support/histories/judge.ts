/** Judges a history: whether for each id one order of its creates explains every response and the table at the end. */

import { type Field, fields, isSamePlant } from '../plants.ts'
import type { Operation, StoredRow } from './history.ts'

/** What a response claims of its operation; `open` claims nothing: the plant may be stored, or be stored later. */
type Claim = 'stored' | 'taken' | 'reused' | 'nothing stored' | 'open' | 'malformed'

/**
 * Returns a line for each violation, none if all is explained. Takes a whole history, and all rows that have its ids
 * when everything has ended. Operations with one key are one write, made by any of them; an operation without a key is a write of its own.
 */
export function judgeHistory(operations: Operation[], rows: StoredRow[]): string[] {
  const rowsById = Map.groupBy(rows, ({ id }) => id)
  const operationsById = Map.groupBy(operations, ({ id }) => id)
  const neverSent = rows.filter(({ id }) => !operationsById.has(id))
  return [
    ...neverSent.map((row) => tell('stored, but never sent', row)),
    ...[...operationsById].flatMap(([id, rivals]) => judgeId(rivals, rowsById.get(id) ?? []))
  ]
}

function judgeId(rivals: Operation[], rows: StoredRow[]): string[] {
  const claims = rivals.map((operation) => ({ operation, claim: claimOf(operation) }))
  const malformed = claims.filter(({ claim }) => claim === 'malformed')
  const [row, ...others] = rows
  return [
    ...malformed.map(({ operation }) => tell('a response that is not of the contract', operation)),
    ...others.map((other) => tell('stored twice', other)),
    ...(row ? judgeRow(row, claims) : judgeAbsence(claims))
  ]
}

/** The claims that need a row. */
const finding = new Set<Claim>(['stored', 'taken', 'reused'])
/** The claims of operations that may have stored their plant. */
const writing = new Set<Claim>(['stored', 'open', 'malformed'])

type Claimed = { operation: Operation; claim: Claim }

function judgeAbsence(claims: Claimed[]): string[] {
  return claims
    .filter(({ claim }) => finding.has(claim))
    .map(({ operation, claim }) => tell(`told "${claim}", but nothing is stored`, operation))
}

function judgeRow(row: StoredRow, claims: Claimed[]): string[] {
  const senders = claims.filter(({ operation }) => isSamePlant(operation, row))
  if (senders.length === 0) return [tell('stored with content that nobody sent', row)]
  const writers = senders.filter(({ claim }) => writing.has(claim))
  if (writers.length === 0)
    return senders.map(({ operation, claim }) => tell(`told "${claim}", but its plant is stored`, operation))
  const writes = Map.groupBy(writers, ({ operation }) => operation.key ?? operation)
  let least: string[] | undefined
  for (const [write, attempts] of writes) {
    const began = Math.min(...attempts.map(({ operation }) => operation.began))
    const violations = claims.flatMap((claimed) => judgeClaim(claimed, { write, row, began }))
    if (violations.length === 0) return []
    if (least === undefined || violations.length < least.length) least = violations
  }
  return least ?? []
}

/** The write that is held to have stored the row: its key or its operation, and when it began. */
interface Winner {
  write: string | Operation
  row: StoredRow
  began: number
}

/** Judges one claim if this write has won. Two equal times have no order. */
function judgeClaim({ operation, claim }: Claimed, { write, row, began }: Winner): string[] {
  const isWinner = (operation.key ?? operation) === write
  const isFirst = began > (operation.ended ?? Number.POSITIVE_INFINITY)
  const because = (fault: string) => [tell(fault, operation, row)]
  if (claim === 'stored' && !(isWinner && isSamePlant(operation, row)))
    return because('acknowledged, but another plant has its id')
  if (claim === 'taken' && isWinner) return because('told "taken" by its own write')
  if (claim === 'reused' && !isWinner) return because('told "reused", but its key stored nothing')
  if (claim === 'reused' && isSamePlant(operation, row)) return because('told "reused" with the same content')
  if (isFirst && (claim === 'taken' || claim === 'reused'))
    return because(`told "${claim}" before the plant that is stored was sent`)
  return []
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
    const isOpen = body.error === 500 || (body.error === 503 && !body.message.includes('stored nothing'))
    return isOpen ? 'open' : 'nothing stored'
  }
  const isPlant = Object.keys(body).every((name) => fields.includes(name as Field))
  return status === 200 && isPlant && isSamePlant(operation, body) ? 'stored' : 'malformed'
}

const tell = (fault: string, ...evidence: (Operation | StoredRow)[]) =>
  `${fault}: ${evidence.map((each) => JSON.stringify(each)).join(' ')}`
