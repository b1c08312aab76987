/**
 * The statements that write and find plants. docs/architecture.md shows those of a create.
 *
 * - `createPlants` inserts the plants of a batch. It has one text for a single plant and one for
 *   several.
 * - `createEachPlant` inserts plants one after the other, each behind a savepoint, and reports on
 *   each.
 * - `findPlants` looks plants up by their ids, and waits until a standby has what it found.
 * - `commitNothing` probes whether a create could succeed.
 *
 * Each statement is one message and one transaction. Its commit waits for the disk and for a
 * synchronous standby, whatever the settings of the session are.
 */
import { Kind } from '@sinclair/typebox'
import { type fieldTypes, NewPlant } from './schema.ts'

/** A row of the table: a plant and its write id, by which a repeat is recognised. */
export type PlantRow = NewPlant & { readonly write_id: string }

/**
 * The SQL types of fields. Each field has a column of its name, nullable if the field is optional.
 */
const typeOf: Record<keyof typeof fieldTypes, string> = { Int64: 'bigint', Text: 'text' }
const columns = Object.entries(NewPlant.properties).map(([name, field]) => [
  name,
  typeOf[field[Kind]]
])
columns.push(['write_id', 'uuid'])
/** The columns that a create writes. */
export const writtenColumns = columns.map(([name]) => name)
const writtenList = writtenColumns.map((name) => `"${name}"`).join(', ')

const synchronousCommit = `current_setting('synchronous_commit')`

// Makes the settings that a durable commit needs, for this transaction only: a pooler would lose
// the settings of a session, or share them with others. The commit must wait for the disk and for a
// synchronous standby. If an operator cancels the wait for the standby, a warning is the only sign
// of it, so warnings must be sent.
const makeSettings = `
  concat(
    set_config('client_min_messages', 'warning', true),
    set_config('synchronous_commit',
      case when ${synchronousCommit} in ('off', 'local') then 'on'
        else ${synchronousCommit} end, true)
  )`

// A create only checks these settings, because making them costs PostgreSQL much of its time for
// one plant (docs/decisions.md). If an operator or another client of a pooler has changed them, the
// create inserts nothing. The plant is then looked up, not found, and inserted with savepoints by
// `createEachPlant`, which makes the settings.
const areSafe = `
  current_setting('synchronous_commit') not in ('off', 'local')
  and current_setting('client_min_messages') <> 'error'`

// Returns the write ids of the rows that were made, and not their ids, so that a row counts as made
// even if a trigger has changed its id, which docs/running.md forbids. PostgreSQL's own count of
// rows cannot be used: Citus counts all rows that were sent, even those whose id is taken
// (citusdata/citus#3377).
const insertFrom = (values: string, condition: string) => `
  insert into plants (${writtenList})
  select ${values}
  where ${condition}
  on conflict (id) do nothing returning write_id`

const insertOne = insertFrom(
  columns.map(([, type], index) => `$${index + 1}::${type}`).join(', '),
  areSafe
)

// There is one array for each column. Functions in the select list are read in step, and cost half
// of what they cost in the `from` clause.
const insertMany = insertFrom(
  columns.map(([, type], index) => `unnest($${index + 2}::${type}[])`).join(', '),
  `${areSafe} and set_config('lock_timeout', $1, true) is not null`
)

// A row can be visible before it is replicated, and only a transaction that writes waits for a
// synchronous standby. A message in the write-ahead log makes this transaction one that writes. Its
// commit comes after that of the row in the log, so when it has returned, the standby has the row.
const waitForStandby = `pg_logical_emit_message(true, 'plant-store', '')`

// The content is neither sent nor read. Otherwise a small request with the id of a large plant
// would cost megabytes.
const find = `
  select asked.id, plants.write_id, ${waitForStandby}
  from unnest($1::bigint[]) as asked (id) join plants on plants.id = asked.id, ${makeSettings}`

// Only plans an insert. That takes the lock of the table, and needs the rights, as an insert does.
// An insert of no rows would do so, too, but would fire an operator's triggers for each statement,
// which may not expect it. The row is selected, as in a batch, because Citus refuses to plan
// `values` whose id is null.
const planInsert = `
  explain insert into plants (${writtenList}) select ${columns.map(([, type]) => `null::${type}`)}
  on conflict (id) do nothing returning write_id`

/**
 * How many lines at the end of the context of a row's error are about the block itself. The last
 * two lines of the context are those of the `insert` below, so it must be one line, and of the `do`
 * block.
 */
const linesOfBlock = 2
const askedList = writtenList.replaceAll(/"\w+"/g, 'asked.$&')
const insertAsked =
  `insert into plants (${writtenList}) values (${askedList}) ` +
  'on conflict (id) do nothing returning write_id into made'

const own = (name: string) => `plant_store.${name}`

// Inserts rows one after the other, each in a subtransaction, and reports on each. A cancel is
// caught, too: the row that it hit took too long, and the rows before it are committed.
// statement_timeout fires only once, so the block then ends, and the rows after it are untried.
// After half of the limit (`soft_limit`), no further row begins, so the commit still has time.
// Those rows are untried, too.
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
          results := results || jsonb_strip_nulls(jsonb_build_object(
            'code', code, 'context', context, 'constraint', nullif(failed_constraint, ''),
            'column', nullif(failed_column, ''), 'table', nullif(failed_table, '')));
      end;
    end loop;
    perform set_config('${own('results')}', results::text, true);
  end $block$`

const columnNames = writtenColumns as (keyof PlantRow)[]

/**
 * Returns the statement that creates plants, and that returns the write ids of the rows it made.
 * Several rows wait up to `lockMs` for the lock of one of them. A single row keeps no other
 * waiting, so it waits until the attempt is cut off.
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

/** Returns a text as an SQL literal that is safe whatever standard_conforming_strings is. */
const literal = (text: string) => `E'${text.replaceAll(/[\\']/g, '$&$&')}'`

/**
 * Returns the statements that create plants one after the other within a limit. They are one
 * message, and so one transaction. A block has no parameters, so the rows come as a setting of the
 * transaction. Each row waits for a lock for its share of half the limit.
 */
export function createEachPlant(rows: readonly PlantRow[], limitMs: number) {
  const settings = {
    statement_timeout: `${limitMs}ms`,
    lock_timeout: `${Math.ceil(limitMs / 2 / Math.max(1, rows.length))}ms`,
    [own('soft_limit')]: `${Math.ceil(limitMs / 2)}ms`,
    [own('rows')]: JSON.stringify(rows, (_, value) =>
      typeof value === 'bigint' ? `${value}` : value
    )
  }
  const configs = Object.entries(settings).map(
    ([name, value]) => `set_config('${name}', ${literal(value)}, true)`
  )
  return {
    text: [
      // Take a transaction id here. Near the wraparound of these ids that fails, for all rows; in
      // the block it would look like the fault of a row.
      `select pg_current_xact_id(), ${makeSettings}, concat(${configs.join(', ')})`,
      planInsert,
      insertEach,
      `select current_setting('${own('results')}') as results`
    ].join(';\n')
  }
}

/** What the block reports about a row: whether it was written, or its error. */
export type EachResult =
  | boolean
  | { code: string; constraint?: string; column?: string; table?: string; context?: string }

/**
 * Returns the error of a row in the form in which PostgreSQL reports errors. It has a context only
 * if the row adds one, for example by a trigger.
 */
export function toRowError({ context = '', ...report }: Exclude<EachResult, boolean>) {
  const where = context.split('\n').slice(0, -linesOfBlock).join('\n') || undefined
  return Object.assign(new Error('a row has failed'), { severity: 'ERROR', ...report, where })
}

/**
 * Returns the statement that finds the rows with these ids. When it has returned, a synchronous
 * standby has the rows, too.
 */
export const findPlants = (ids: readonly bigint[]) => ({
  name: 'find plants',
  text: find,
  values: [ids]
})

/**
 * The probe: it commits as a create does, but without a plant. It is one message, one transaction.
 */
export const commitNothing = { text: `${planInsert};\nselect ${waitForStandby}, ${makeSettings}` }

/** Returns a statement that needs all that this one needs, but only plans it. */
const planOf = (statement: ReturnType<typeof createPlants>) => ({
  ...statement,
  name: `plan to ${statement.name}`,
  text: `explain ${statement.text}`
})

/** A row with which the statement for a single plant can be planned. */
const anyRow = { id: 0n, name: '', write_id: '00000000-0000-4000-8000-000000000000' }

/**
 * Each statement, without rows or only planned, so that none inserts. The start waits until all of
 * them succeed.
 */
export const samples = [
  planOf(createPlants([], 25)),
  planOf(createPlants([anyRow], 25)),
  // The limit is long, so that a slow machine does not fail the start.
  createEachPlant([], 5_000),
  findPlants([]),
  commitNothing
]
