/** Asserts of a load that has ended: what its clients were told is what the table holds. */
import type { Test } from 'tap'
import { fields } from '../plants.ts'
import { query } from '../postgres/database.ts'
import { judgeHistory, type StoredRow } from './judge.ts'
import { errorOf, type History } from './rivals.ts'

const content = fields.map((field) => `'${field}', ${field}`).join(', ')

/** The query for the rows of a load, with ids from this one: a StoredRow of JSON each. */
export const selectRows = (firstId = 1) => `
  select json_strip_nulls(json_build_object('id', id::text, ${content})) as row
  from plants where id between ${firstId} and ${Number.MAX_SAFE_INTEGER}`

/** Asserts that the judge finds nothing, and that no create failed. */
export async function assertHistory(t: Test, databaseUrl: string, history: History) {
  const rows = (await query(databaseUrl, selectRows())).map(({ row }) => row)
  assertRows(t, rows, history)
  t.strictSame(history.failed, [], 'no create failed')
}

/** Asserts the same of clients that repeat what is lost, and that each that waited got a response, none worth a repeat. */
export async function assertNoErrors(
  t: Test,
  databaseUrl: string,
  history: History,
  mayBreak = false
) {
  await assertHistory(t, databaseUrl, history)
  const errors = history.operations.filter(
    (operation) => ![-1, 0, 409, 422].includes(errorOf(operation))
  )
  t.strictSame(errors, [], 'no client saw an error')
  if (!mayBreak) t.equal(history.broken, 0, 'no connection has broken')
}

/** Asserts that the judge finds nothing. */
export function assertRows(t: Test, rows: StoredRow[], { operations, failed, repeats }: History) {
  const slowest = operations.reduce(
    (most, { began, ended = 0 }) => Math.max(most, ended - began),
    0
  )
  t.comment(
    `${operations.length} requests, ${rows.length} plants, ${repeats} repeats, ${failed.length} failed, ` +
      `the slowest ${Math.round(slowest)} ms`
  )
  t.strictSame(judgeHistory(operations, rows).slice(0, 5), [])
  const errors = operations.map(errorOf)
  t.ok(rows.length > 0 && errors.includes(409) && errors.includes(422), 'there were rivals')
}
