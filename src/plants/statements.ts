/** The statements that write and find plants, many in one transaction. */
import { toArray } from '../database/arrays.ts'
import { castParameters, columnNames, toArrayParameters, toParameters } from './columns.ts'
import type { NewPlant } from './schema.ts'

/** A plant, and the id of the write that puts it into the table. */
export interface PlantWrite {
  readonly plant: NewPlant
  /** Recognises this write when it is repeated. */
  readonly writeId: string
}

/** A row that a statement returned; `createPlants` returns the id alone. */
export interface StoredRow extends Record<string, unknown> {
  readonly id: string
  readonly write_id: string
  /** Whether the statement that returned it has made it; not every statement says. */
  readonly is_new?: boolean
}

/** Takes no row, and fails where the table lacks a column that this build needs. */
export const selectRequired = `select write_id, ${columnNames}, created_at from plants limit 0`

// The lock time-out stands in the statement itself: a session's would be lost, or shared, behind a pooler.
// It is short, as a locked id holds up its whole batch until it is found; the caller's row is tried again and again.
const lockTimeout = `set_config('lock_timeout', '25ms', true)`

const insertMany = `
  insert into plants (write_id, ${columnNames})
  select write_id, ${columnNames}
  from unnest($1::uuid[], ${castParameters(2, '[]')}) as new (write_id, ${columnNames}), ${lockTimeout}
  on conflict (id)`

// A row alone is written with less work for the planner and the executor.
const insertOne = `
  insert into plants (write_id, ${columnNames})
  select $1::uuid, ${castParameters(2)}
  from ${lockTimeout}
  on conflict (id)`

// What comes back is counted, not what the server says that it has inserted: Citus counts the rows that were sent, also
// those whose id is taken (citusdata/citus#3377).
const createOnly = 'do nothing returning id'

// Finding the row is not enough for a repeated write: it can be visible before it is replicated. Only a commit that
// writes waits for a synchronous standby, so the row is written again where the write id is ours. A row that is new has
// the time of this transaction.
const writeAgain = `
  do update set write_id = excluded.write_id where plants.write_id = excluded.write_id
  returning write_id, ${columnNames}, created_at = now() as is_new`

// The row of another write can be visible, too, before it is replicated. The message makes this transaction one that
// writes, and its commit stands behind that row's in the log.
const waitForStandby = `pg_logical_emit_message(true, 'plant-store', '')`

const findMany = (more = '') =>
  `select write_id, ${columnNames}${more} from plants where id = any ($1::bigint[])`

const statements = {
  first: { name: 'create plants', text: `${insertMany} ${createOnly}` },
  firstOfOne: { name: 'create a plant', text: `${insertOne} ${createOnly}` },
  repeat: { name: 'create plants again', text: `${insertMany} ${writeAgain}` },
  find: { name: 'find plants', text: findMany(`, ${waitForStandby}`) },
  findVisible: { name: 'find visible plants', text: findMany() }
}

/** Gives the statement that creates plants; it returns those whose id was free. */
export function createPlants(writes: readonly PlantWrite[]) {
  const [only] = writes
  if (writes.length > 1 || only === undefined) return { ...statements.first, values: toValues(writes) }
  return { ...statements.firstOfOne, values: [only.writeId, ...toParameters(only.plant)] }
}

/** Gives the statement that creates plants or writes them again; it returns those that are this write's. */
export const repeatPlants = (writes: readonly PlantWrite[]) => ({
  ...statements.repeat,
  values: toValues(writes)
})

/**
 * Gives the statement that finds the rows with the ids of these plants, whoever has written them. What it finds is
 * replicated when it ends, unless it is to give what is merely visible.
 */
export const findPlants = (writes: readonly PlantWrite[], isVisibleEnough = false) => ({
  ...(isVisibleEnough ? statements.findVisible : statements.find),
  values: [toArray(writes.map(({ plant }) => `${plant.id}`))]
})

const toValues = (writes: readonly PlantWrite[]) => [
  toArray(writes.map(({ writeId }) => writeId)),
  ...toArrayParameters(writes.map(({ plant }) => plant))
]
