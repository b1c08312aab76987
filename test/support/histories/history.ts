/** Loads of creates: what each has sent and got, what the table holds in the end, and whether one order explains both. */
import type { Test } from 'tap'
import { fields, type Plant } from '../plants.ts'
import { query } from '../postgres/database.ts'
import { judgeHistory } from './judge.ts'
import type { History } from './rivals.ts'

/** One `POST /plants` of a load: what was sent, what came back, and when, by one clock of the load. */
export interface Operation extends Plant {
  /** The id as its decimal digits: int64 does not fit a JavaScript number. */
  id: string
  /** The value of `Idempotency-Key`. */
  key?: string
  /** Milliseconds of the load's clock before the first byte was sent. */
  began: number
  /** Milliseconds of the load's clock after the last byte came; absent while the response is open or lost. */
  ended?: number
  /** Absent if the connection was lost, or the client gave up: the create may take effect at any later time. */
  response?: { status: number; body: { error: number; message: string } | Plant }
}

/** A row of the table when the load has ended and everything is healed. */
export interface StoredRow extends Plant {
  id: string
}

const content = fields.map((field) => `'${field}', ${field}`).join(', ')

/** The query for the rows whose ids are in a range: a StoredRow of JSON each. */
export const selectRows = (
  firstId: number | bigint = 1,
  lastId: number | bigint = Number.MAX_SAFE_INTEGER
) => `
  select json_strip_nulls(json_build_object('id', id::text, ${content})) as row
  from plants where id between ${firstId} and ${lastId}`

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
