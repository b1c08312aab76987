/** What a server made of an awkward request: its answer, the table afterwards, and whether both keep the interface. */
import { query } from '../database.ts'
import type { Case, Row } from './cases.ts'
import type { Outcome } from './post.ts'

/** A fact as it was seen. */
export interface Fact {
  case: string
  outcome: Outcome
  /** The rows of the table afterwards. */
  rows: Row[]
  keepsInterface: boolean
}

/** Makes the table hold what a case begins with. */
export async function prepare(databaseUrl: string, before: Row[]): Promise<void> {
  await query(databaseUrl, 'truncate plants')
  for (const { id, name, tag } of before) {
    // The service's table has a column more; its other columns have defaults.
    await query(
      databaseUrl,
      `do $$ begin
         insert into plants (id, name, tag) values (${id}, '${name}', '${tag}');
       exception when not_null_violation then
         insert into plants (id, name, tag, write_id) values (${id}, '${name}', '${tag}', gen_random_uuid());
       end $$`
    )
  }
}

/** Reads the table's rows whose ids are among `ids`, or all. */
export async function readRows(databaseUrl: string): Promise<Row[]> {
  return query(databaseUrl, 'select id::text, name, tag from plants order by plants.id')
}

/**
 * Judges an outcome by the interface alone: 200 with the plant that was sent, which is then in the table exactly as it
 * was sent; or 400 with `error` (an integer) and `message` (a text), and the table as it was. A request that is not
 * valid may only have the second.
 */
export function judge({ title, before, wanted }: Case, outcome: Outcome, rows: Row[]): Fact {
  const isRefusal = 'status' in outcome && outcome.status === 400 && isError(outcome.body)
  const isSuccess = wanted !== undefined && 'status' in outcome && outcome.status === 200
  const keepsInterface =
    (isRefusal && isSame(rows, before)) ||
    (isSuccess && isPlant(outcome.body, wanted) && isSame(rows, [...before, wanted]))
  return { case: title, outcome, rows, keepsInterface }
}

/** Whether a body is the interface's Error. */
export function isError(body: string): boolean {
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
