/** Loads of creates: what each has sent and got, and what the table holds in the end. */
import { fields, type Plant } from '../plants.ts'

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
