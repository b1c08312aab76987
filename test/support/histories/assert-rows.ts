/** Assertions over a load of rivals: one order explains its responses and what is stored. */
import type { Test } from 'tap'
import { query } from '../postgres/database.ts'
import { type Operation, type StoredRow, selectRows } from './history.ts'
import { judgeHistory } from './judge.ts'
import type { History } from './rivals.ts'

/** Asserts that the judge finds nothing, and that no create failed. */
export async function assertHistory(t: Test, databaseUrl: string, history: History) {
  const rows = await query(databaseUrl, selectRows())
  assertRows(
    t,
    rows.map(({ row }) => row),
    history
  )
  t.strictSame(history.failed, [], 'no create failed')
}

/** Asserts the same of clients that repeat what is lost, and that no response was an error that is worth a repeat. */
export async function assertNoErrors(t: Test, databaseUrl: string, history: History) {
  await assertHistory(t, databaseUrl, history)
  const errors = history.operations.filter((operation) => ![undefined, 409, 422].includes(errorOf(operation)))
  t.strictSame(errors, [], 'no client saw an error')
}

const errorOf = ({ response }: Operation) =>
  response && 'error' in response.body ? response.body.error : undefined

/** Asserts that the judge finds nothing. */
export function assertRows(t: Test, rows: StoredRow[], { operations, failed, repeats }: History) {
  const slowest = operations.reduce((most, { began, ended = 0 }) => Math.max(most, ended - began), 0)
  t.comment(
    `${operations.length} requests, ${rows.length} plants, ${repeats} repeats, ${failed.length} failed, ` +
      `the slowest ${Math.round(slowest)} ms`
  )
  t.strictSame(judgeHistory(operations, rows).slice(0, 5), [])
  const errors = operations.map(errorOf)
  t.ok(rows.length > 0 && errors.includes(409) && errors.includes(422), 'there were rivals')
}
