/** The statements that write and find plants, many in one transaction. */
import { castParameters, columnNames, columns, toArray, toArrayParameters, toParameters } from './columns.ts'
import type { NewPlant } from './schema.ts'

/** A plant, and the id of the write that puts it into the table. */
export interface PlantWrite {
  readonly plant: NewPlant
  /** Recognises this write when it is repeated. */
  readonly writeId: string
}

/** A row that has an id that was asked for, and the write that has stored it. */
export interface FoundRow extends Record<string, unknown> {
  readonly id: string
  readonly write_id: string
}

/** The columns that a create writes. */
export const written = `write_id, ${columnNames}`

/** Selects the function by which a look-up waits for the standby. */
export const selectFunction = `
  select oid from pg_proc where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype`

/** Asks whether a look-up can wait for the standby. */
export const selectCanWait = {
  name: 'can look-ups wait',
  text: `select exists (${selectFunction}) as can_wait`
}

const waiting = `current_setting('synchronous_commit')`

// The statement itself has the settings: a pooler would lose a session's, or share them. A commit waits for the disk and,
// if there is one, the synchronous standby. The only sign of one that was cancelled there is a warning.
const settings = (lockTimeout: string) => `
  concat(
    set_config('lock_timeout', ${lockTimeout}, true),
    set_config('client_min_messages', 'warning', true),
    set_config('synchronous_commit', case when ${waiting} in ('off', 'local') then 'on' else ${waiting} end, true)
  )`

const fields = Object.keys(columns).length
/** The parameter after those of the columns. */
const lockTimeout = `$${fields + 2}`

// The returned rows are counted, not those that the server reports as inserted: Citus reports all that were sent, even
// those whose id is taken (citusdata/citus#3377).
const createOnly = 'on conflict (id) do nothing returning id'

const insertMany = `
  insert into plants (${written})
  select ${written}
  from unnest($1::uuid[], ${castParameters(2, '[]')}) as new (${written}), ${settings(lockTimeout)}
  ${createOnly}`

// A row alone is written with less work for the planner and the executor.
const insertOne = `
  insert into plants (${written})
  select $1::uuid, ${castParameters(2)}
  from ${settings(lockTimeout)}
  ${createOnly}`

// A row can be visible before it is replicated, and only a commit that writes waits for a synchronous standby. The
// message makes this transaction one that writes, and its commit comes after that row's in the log.
const waitForStandby = `, pg_logical_emit_message(true, 'plant-store', '')`

// The content is neither sent nor read: it would be megabytes for each small request that names its id.
const findMany = (more: string) => `
  select plants.id, plants.write_id${more}
  from unnest($1::bigint[]) as asked (id) join plants on plants.id = asked.id, ${settings(`'25ms'`)}`

const statements = {
  create: { name: 'create plants', text: insertMany },
  createOne: { name: 'create a plant', text: insertOne },
  find: { name: 'find plants', text: findMany(waitForStandby) },
  findVisible: { name: 'find visible plants', text: findMany('') }
}

/** Returns the statement that creates plants; it returns those whose id was free, and waits so long for a lock. */
export function createPlants(writes: readonly PlantWrite[], lockMs: number) {
  const [only] = writes
  const lock = `${lockMs}ms`
  if (writes.length > 1 || only === undefined) {
    const writeIds = toArray(writes.map(({ writeId }) => writeId))
    const plants = toArrayParameters(writes.map(({ plant }) => plant))
    return { ...statements.create, values: [writeIds, ...plants, lock] }
  }
  return { ...statements.createOne, values: [only.writeId, ...toParameters(only.plant), lock] }
}

/**
 * Returns the statement that finds the rows with these ids, whichever write stored them. What it finds is replicated when
 * it ends, unless the engine cannot wait for that.
 */
export const findPlants = (ids: readonly bigint[], canWait: boolean) => ({
  ...(canWait ? statements.find : statements.findVisible),
  values: [toArray(ids.map(String))]
})
