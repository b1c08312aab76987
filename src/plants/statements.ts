/** The statements that write and find plants, many in one transaction, and what they need of the database. */
import { Kind } from '@sinclair/typebox'
import { type fieldTypes, NewPlant } from './schema.ts'

/** A row of the table: a plant, and the id of its write, which identifies a repeat. */
export type PlantRow = NewPlant & { readonly write_id: string }

/** The SQL types of the columns: each field has one of its name, which may be null if the field is optional. */
const typeOf: Record<keyof typeof fieldTypes, string> = { Int64: 'bigint', Text: 'text' }
const columns = Object.entries(NewPlant.properties).map(([name, field]) => [name, typeOf[field[Kind]]])
columns.push(['write_id', 'uuid'])
/** The columns that a create writes. */
export const writtenColumns = columns.map(([name]) => name)
const writtenList = writtenColumns.map((name) => `"${name}"`).join(', ')

const synchronousCommit = `current_setting('synchronous_commit')`

// The statement makes the settings itself, for its transaction: a pooler would lose those of a session, or share them. A
// commit must wait for the disk and for a synchronous standby. If an operator cancels the latter wait, the only sign is a
// warning, so warnings must be sent.
const settings = `
  concat(
    set_config('client_min_messages', 'warning', true),
    set_config('synchronous_commit',
      case when ${synchronousCommit} in ('off', 'local') then 'on' else ${synchronousCommit} end, true)
  )`

// A create only looks at these settings, which the other statements make: to make them costs a third of PostgreSQL's time for
// one plant. Where they are otherwise, since an operator or another client of a pooler has changed them, nothing is inserted.
// The plant is then looked up, not found, and written by a careful call, which makes them.
const areSafe = `
  current_setting('synchronous_commit') not in ('off', 'local') and current_setting('client_min_messages') <> 'error'`

// Returns which writes were made, even if a trigger has changed the id. PostgreSQL's own count is of no use: Citus counts
// all rows that were sent, even those whose id is taken (citusdata/citus#3377).
const insertFrom = (values: string, condition: string) => `
  insert into plants (${writtenList})
  select ${values}
  where ${condition}
  on conflict (id) do nothing returning write_id`

const insertOne = insertFrom(columns.map(([, type], index) => `$${index + 1}::${type}`).join(', '), areSafe)

// One array for each column. In the select list they are read in step, and cost half of what functions in `from` do.
const insertMany = insertFrom(
  columns.map(([, type], index) => `unnest($${index + 2}::${type}[])`).join(', '),
  `${areSafe} and set_config('lock_timeout', $1, true) is not null`
)

// A row can be visible before it is replicated, and only a commit that writes waits for a synchronous standby. A message in
// the log makes this transaction one that writes. Its commit follows that of the row in the log, so the standby has both.
const waitForStandby = `pg_logical_emit_message(true, 'plant-store', '')`

// Neither sends nor reads the content: a small request that names the id of a large plant would cost megabytes.
const find = `
  select asked.id, plants.write_id, ${waitForStandby}
  from unnest($1::bigint[]) as asked (id) join plants on plants.id = asked.id, ${settings}`

// Takes the lock of the table and needs the rights that an insert does, but is not one: an insert of no rows would fire the
// triggers that an operator has for each statement, and these may not expect it. Selects its row, as the batch does: Citus
// refuses to plan a row of values without an id.
const planInsert = `
  explain insert into plants (${writtenList}) select ${columns.map(([, type]) => `null::${type}`)}
  on conflict (id) do nothing returning write_id`

/** The lines that PostgreSQL adds to the context of an error of a row: the statement below, in one line, and its block. */
const linesOfBlock = 2
const insertAsked = `insert into plants (${writtenList}) values (${writtenList.replaceAll(/"\w+"/g, 'asked.$&')}) on conflict (id) do nothing returning write_id into made`

const own = (name: string) => `plant_store.${name}`

// Inserts rows one by one, each in a subtransaction, and notes what has become of it. A cancel is caught, too: then the row is
// the one that took too long, and the rows before it are committed. As statement_timeout acts once, no row comes after it.
const insertEach = `
  do $block$
  declare
    began constant timestamptz := clock_timestamp();
    soft_limit constant interval := current_setting('${own('soft_limit')}');
    results jsonb := '[]';
    asked record;
    made uuid;
    code text;
    failed_constraint text;
    failed_column text;
    failed_table text;
    context text;
  begin
    for asked in
      select * from json_to_recordset(current_setting('${own('rows')}')::json)
        as asked (${columns.map(([name, type]) => `"${name}" ${type}`)})
    loop
      exit when results <> '[]' and clock_timestamp() > began + soft_limit;
      begin
        ${insertAsked};
        set constraints all immediate;
        results := results || to_jsonb(made is not null);
      exception
        when query_canceled then
          results := results || jsonb_build_object('code', '57014');
          exit;
        when others or assert_failure then
          get stacked diagnostics code = returned_sqlstate, failed_constraint = constraint_name,
            failed_column = column_name, failed_table = table_name, context = pg_exception_context;
          results := results || jsonb_strip_nulls(jsonb_build_object('code', code, 'context', context,
            'constraint', nullif(failed_constraint, ''), 'column', nullif(failed_column, ''),
            'table', nullif(failed_table, '')));
      end;
    end loop;
    perform set_config('${own('results')}', results::text, true);
  end $block$`

const columnNames = writtenColumns as (keyof PlantRow)[]

/**
 * Returns the statement that creates plants. It returns the ids of the writes that were made. Several rows wait `lockMs` for the
 * lock of one of them. A row alone keeps no other waiting, so it waits until it is cut off.
 */
export function createPlants(rows: readonly PlantRow[], lockMs: number) {
  const [first] = rows
  if (first && rows.length === 1)
    return {
      name: 'create a plant',
      text: insertOne,
      values: columnNames.map((name) => first[name])
    }
  const arrays = columnNames.map((name) => rows.map((row) => row[name]))
  return { name: 'create plants', text: insertMany, values: [`${lockMs}ms`, ...arrays] }
}

/** Writes a text as a literal, whatever standard_conforming_strings is. */
const literal = (text: string) => `E'${text.replaceAll(/[\\']/g, '$&$&')}'`

/**
 * Returns the statements, in one message and so in one transaction, that create plants one by one within a limit. The rows
 * come as settings of the transaction, because a block has no parameters. A row waits for a lock for its share of the limit.
 */
export function createEachPlant(rows: readonly PlantRow[], limitMs: number) {
  const made = {
    statement_timeout: `${limitMs}ms`,
    lock_timeout: `${Math.ceil(limitMs / 2 / Math.max(1, rows.length))}ms`,
    [own('soft_limit')]: `${Math.ceil(limitMs / 2)}ms`,
    [own('rows')]: JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? `${value}` : value))
  }
  const configs = Object.entries(made).map(
    ([name, value]) => `set_config('${name}', ${literal(value)}, true)`
  )
  return {
    text: [
      // Near the wraparound of transaction ids this fails, for all rows. In the block, it would look like a row's fault.
      `select pg_current_xact_id(), ${settings}, concat(${configs.join(', ')})`,
      planInsert,
      insertEach,
      `select current_setting('${own('results')}') as results`
    ].join(';\n')
  }
}

/** What the block says of a row: whether it was written, or its error. */
export type EachResult =
  | boolean
  | { code: string; constraint?: string; column?: string; table?: string; context?: string }

/** Returns an error of a row as PostgreSQL reports it, with its context if the row has one of its own, as of a trigger. */
export function toRowError({ context = '', ...report }: Exclude<EachResult, boolean>) {
  const where = context.split('\n').slice(0, -linesOfBlock).join('\n') || undefined
  return Object.assign(new Error('a row has failed'), { severity: 'ERROR', ...report, where })
}

/** Returns the statement that finds the rows with these ids. When it has ended, the standby has what it found. */
export const findPlants = (ids: readonly bigint[]) => ({
  name: 'find plants',
  text: find,
  values: [ids]
})

/** Commits as a create does, without a plant: two statements in one message, and so in one transaction. */
export const commitNothing = { text: `${planInsert};\nselect ${waitForStandby}, ${settings}` }

/** Returns a statement that needs what this one does, and only plans it. */
const planOf = (statement: ReturnType<typeof createPlants>) => ({
  ...statement,
  name: `plan to ${statement.name}`,
  text: `explain ${statement.text}`
})

/** A row to plan a statement with. */
const anyRow = { id: 0n, name: '', write_id: '00000000-0000-4000-8000-000000000000' }

/** Each statement, without rows or only planned: all must succeed before the service serves, and none inserts. */
export const samples = [
  planOf(createPlants([], 25)),
  planOf(createPlants([anyRow], 25)),
  // A busy machine must not miss the limit.
  createEachPlant([], 5_000),
  findPlants([]),
  commitNothing
]
