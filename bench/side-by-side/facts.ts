/** What a server made of an awkward request: its response, the table afterwards, and whether both keep the interface. */
import type { Outcome } from '../../test/support/post.ts'
import { query } from '../../test/support/postgres/query.ts'
import type { Case, Row } from './cases.ts'

/** A fact as it was seen. */
export interface Fact {
  case: string
  outcome: Outcome
  /** Whether the response is 200 with the plant that was sent, or 400 with the interface's Error. */
  answer: 'Plant' | 'Error' | 'neither'
  /** The rows of the table afterwards. */
  rows: Row[]
  /** What that is more than before. */
  stored: 'nothing' | 'the plant' | 'something else'
  /** Whether the request is a valid one. */
  isValid: boolean
  /** Whether the plant was created as it was sent. */
  isCreated: boolean
  keepsInterface: boolean
}

/** Reads the table. */
export async function readRows(databaseUrl: string): Promise<Row[]> {
  return query(databaseUrl, 'select id::text, name, tag from plants order by plants.id')
}

/**
 * Judges an outcome by the interface alone: 200 with the plant that was sent, which is then in the table exactly as it
 * was sent; or 400 with `error` (an integer) and `message` (a text), and the table as it was. A request that is not
 * valid may only have the second, a valid one only where something else stands against it.
 */
export function judge({ title, before, wanted, mayFail }: Case, outcome: Outcome, rows: Row[]): Fact {
  const after = wanted ? [...before, wanted] : undefined
  const stored = isSame(rows, before) ? 'nothing' : isSame(rows, after) ? 'the plant' : 'something else'
  const answer = describe(outcome, wanted)
  const isValid = wanted !== undefined
  const isCreated = answer === 'Plant' && stored === 'the plant'
  const isRefused = answer === 'Error' && stored === 'nothing'
  return {
    case: title,
    outcome,
    answer,
    rows,
    stored,
    isValid,
    isCreated,
    keepsInterface: isCreated || (mayFail && isRefused)
  }
}

/** Names what a client got: the plant that it sent, the interface's Error, or neither. */
function describe(outcome: Outcome, wanted: Row | undefined): Fact['answer'] {
  if ('failure' in outcome) return 'neither'
  const { status, body } = outcome
  if (status === 200 && wanted && isPlant(body, wanted)) return 'Plant'
  return status === 400 && isError(body) ? 'Error' : 'neither'
}

/** Whether a body is the interface's Error. */
function isError(body: string): boolean {
  const value = parse(body)
  return Number.isInteger(value?.error) && typeof value?.message === 'string'
}

/** Whether a body is the interface's Plant, with this name and tag. */
function isPlant(body: string, { name, tag }: Row): boolean {
  return isSame(parse(body), { name, tag })
}

function parse(body: string) {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)
