/** The statements that write plants, many in one transaction. */
import { plainArray, textArray } from '../database/arrays.ts'
import { classify, mayBeOneRows, OutcomeUnknown } from '../database/errors.ts'
import type { Database } from '../database/pool.ts'
import { checkReadiness } from '../database/readiness.ts'
import { Failure } from '../failures/failures.ts'
import { missing, type Store } from '../group-commit/types.ts'
import type { TracedItem } from '../tracing/tracing.ts'

/** A plant on its way into the table. */
export interface PlantItem extends TracedItem {
  readonly name: string
  readonly tag: string | undefined
  /** Recognises this write when it is repeated. */
  readonly writeId: string
  /** The client may repeat it too: the write id comes from its Idempotency-Key. */
  readonly isKeyed: boolean
  /** Called with the number of plants in each transaction that it is tried in. */
  readonly onAttempt?: ((batchRows: number) => void) | undefined
}

/**
 * What became of a plant that is stored: created for the client who asked now, or found where an earlier request with
 * its Idempotency-Key had stored it.
 */
export type Stored = 'created' | 'replayed'

interface StoredPlant {
  id: string
  name: string
  tag: string | null
  write_id: string
  /** Whether the statement that returned it has made it; not every statement says. */
  is_new?: boolean
}

// The lock time-out stands in the statement itself: a session's would be lost, or shared, behind a pooler.
// It is short, as a locked id holds up its whole batch until it is found; the caller's row is tried again and again.
const lockTimeout = `set_config('lock_timeout', '25ms', true)`

const insertMany = `
  insert into plants (id, name, tag, write_id)
  select new.id, new.name, new.tag, new.write_id
  from unnest($1::bigint[], $2::text[], $3::text[], $4::uuid[]) as new (id, name, tag, write_id), ${lockTimeout}
  on conflict (id)`

// A row alone is written with less work for the planner and the executor.
const insertOne = `
  insert into plants (id, name, tag, write_id)
  select $1::bigint, $2::text, $3::text, $4::uuid
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
  returning id, name, tag, write_id, created_at = now() as is_new`

const statements = {
  first: { name: 'create plants', text: `${insertMany} ${createOnly}` },
  firstOfOne: { name: 'create a plant', text: `${insertOne} ${createOnly}` },
  repeat: { name: 'create plants again', text: `${insertMany} ${writeAgain}` },
  find: {
    name: 'find plants',
    text: 'select id, name, tag, write_id from plants where id = any ($1::bigint[])'
  }
}

/** Makes the store of plants over the database. */
export function createPlantStore(database: Database): Store<PlantItem, Stored> {
  return {
    classify,
    mayBeOneRows,

    async write(rows, signal) {
      const items = rows.map(({ item }) => item)
      for (const { onAttempt } of items) onAttempt?.(items.length)
      const isRepeat = rows.some(({ item, repeated }) => repeated || item.isKeyed)
      const written = await database.query<StoredPlant>(isRepeat ? repeat(items) : create(items), signal)
      if (!isRepeat && written.rows.length === items.length) return items.map(() => 'created')
      const certain = byId(written.rows)
      const others = items.filter(({ id }) => !certain.has(String(id)))
      const found = others.length === 0 ? [] : await findAfterWrite(others, signal)
      const visible = byId(found)
      return rows.map(({ item, repeated }) => {
        const id = String(item.id)
        const row = certain.get(id) ?? visible.get(id)
        if (row === undefined) return missing
        if (!isRepeat && certain.has(id)) return 'created'
        if (row.write_id !== item.writeId) return new Failure('DuplicatePlant')
        // Our row, but from an attempt whose commit nobody has waited for: it is to be written again.
        if (isRepeat && !certain.has(id)) return missing
        // A row of this attempt is the client's whatever a trigger has made of it.
        if (!item.isKeyed || row.is_new) return 'created'
        if (!isSame(item, row)) return new Failure('ReusedKey')
        // What our own earlier attempt may have written is new to its client.
        return repeated ? 'created' : 'replayed'
      })
    },

    probe: () => checkReadiness(database)
  }

  async function findAfterWrite(items: PlantItem[], signal: AbortSignal): Promise<StoredPlant[]> {
    const { rows } = await database.query<StoredPlant>(find(items), signal).catch((cause) => {
      throw new OutcomeUnknown('the rows are written, and cannot be looked at', cause)
    })
    return rows
  }
}

function create(items: PlantItem[]) {
  const [only] = items
  if (items.length > 1 || only === undefined) return { ...statements.first, values: columns(items) }
  return { ...statements.firstOfOne, values: [only.id, only.name, only.tag, only.writeId] }
}

const repeat = (items: PlantItem[]) => ({ ...statements.repeat, values: columns(items) })

const find = (items: PlantItem[]) => ({ ...statements.find, values: [plainArray(items.map(({ id }) => id))] })

function columns(items: PlantItem[]): string[] {
  return [
    plainArray(items.map(({ id }) => id)),
    textArray(items.map(({ name }) => name)),
    textArray(items.map(({ tag }) => tag)),
    plainArray(items.map(({ writeId }) => writeId))
  ]
}

const byId = (rows: StoredPlant[]) => new Map(rows.map((row) => [row.id, row]))

function isSame({ name, tag }: PlantItem, row: StoredPlant): boolean {
  return row.name === name && row.tag === (tag ?? null)
}
