/** The statements that write and find plants, many in one transaction, and what they need of the database. */
import { makeChecks } from '../database/checks.ts'
import { StacklessError } from '../shared/stackless-error.ts'
import { castParameters, columnNames, columns, toArray, toArrayParameters } from './columns.ts'
import type { NewPlant } from './schema.ts'

/** A plant, and the id of its write, which identifies a repeat. */
export interface PlantWrite {
  readonly plant: NewPlant
  readonly writeId: string
}

/** The columns that a create writes, as SQL lists them. */
const writtenList = `write_id, ${columnNames}`
/** The columns that a create writes. */
export const writtenColumns = writtenList.split(', ')

const synchronousCommit = `current_setting('synchronous_commit')`

// The statement makes the settings itself, for its transaction: a pooler would lose those of a session, or share them. A
// commit must wait for the disk and for a synchronous standby. If an operator cancels the latter wait, the only sign is a
// warning, so warnings must be sent.
const settings = (lockTimeout: string) => `
  concat(
    set_config('lock_timeout', ${lockTimeout}, true),
    set_config('client_min_messages', 'warning', true),
    set_config('synchronous_commit',
      case when ${synchronousCommit} in ('off', 'local') then 'on' else ${synchronousCommit} end, true)
  )`

/** How long a statement that inserts no row may wait for a lock. It needs none that others hold for long. */
const lookupLockMs = 25
const lookupSettings = settings(`'${lookupLockMs}ms'`)

/** The last parameter: $1 are the write ids, the next ones are the columns. */
const lockTimeoutParameter = `$${Object.keys(columns).length + 2}`

// Returns which writes were made, even if a trigger has changed the id. PostgreSQL's own count is of no use: Citus counts
// all rows that were sent, even those whose id is taken (citusdata/citus#3377).
//
// With array_nulls off, an absent tag would become the text NULL. Then no row is inserted.
const insert = `
  insert into plants (${writtenList})
  select ${writtenList}
  from unnest($1::uuid[], ${castParameters(2)}) as new (${writtenList}), ${settings(lockTimeoutParameter)}
  where current_setting('array_nulls') = 'on'
  on conflict (id) do nothing returning write_id`

// A row can be visible before it is replicated, and only a commit that writes waits for a synchronous standby. A message in
// the log makes this transaction one that writes. Its commit follows that of the row in the log, so the standby has both.
const waitForStandby = `pg_logical_emit_message(true, 'plant-store', '')`

// Neither sends nor reads the content: a small request that names the id of a large plant would cost megabytes.
const find = `
  select plants.id, plants.write_id, ${waitForStandby}
  from unnest($1::bigint[]) as asked (id) join plants on plants.id = asked.id, ${lookupSettings}`

// Finds rows of version 1.0.0 by their content: their write ids hold no hash of it.
const contentOf = (table: string) => `(${columnNames.replaceAll(/\w+/g, `${table}.$&`)})`
const compare = `
  select plants.id from unnest(${castParameters(1)}) as asked (${columnNames})
  join plants on plants.id = asked.id and ${contentOf('plants')} is not distinct from ${contentOf('asked')}`

// Inserts no row, but needs the same rights, and the same lock of the table, as an insert.
const insertNone = `
  insert into plants (${writtenList}) select ${writtenList} from plants limit 0 on conflict (id) do nothing`
const insertNothing = `with none as (${insertNone}) select ${waitForStandby}, ${lookupSettings}`

/** The lines that PostgreSQL adds to the context of an error of a row: the statement below, in one line, and its block. */
const linesOfBlock = 2
const insertOne = `insert into plants (${writtenList}) values (${writtenList.replaceAll(/\w+/g, 'asked.$&')}) on conflict (id) do nothing returning write_id into made`

const own = (name: string) => `plant_store.${name}`
const elementsOf = (name: string, type: string) => `current_setting('${own(name)}')::${type}[]`

// Inserts rows one by one, each in a subtransaction, and notes what has become of it. A cancel is caught, too: then the row is
// the one that took too long, and the rows before it are committed. As statement_timeout acts once, no row comes after it.
const insertEach = `
  do $block$
  declare
    began constant timestamptz := clock_timestamp();
    soft_limit constant interval := current_setting('${own('soft_limit')}');
    outcomes jsonb := '[]';
    asked record;
    made uuid;
    code text;
    broken text;
    field text;
    context text;
  begin
    for asked in
      select * from unnest(${elementsOf('write_id', 'uuid')}, ${Object.values(columns)
        .map(({ name, type }) => elementsOf(name, type))
        .join(', ')}) as asked (${writtenList})
    loop
      exit when outcomes <> '[]' and clock_timestamp() > began + soft_limit;
      begin
        ${insertOne};
        set constraints all immediate;
        outcomes := outcomes || to_jsonb(made is not null);
      exception
        when query_canceled then
          outcomes := outcomes || jsonb_build_object('code', '57014');
          exit;
        when others or assert_failure then
          get stacked diagnostics code = returned_sqlstate, broken = constraint_name, field = column_name,
            context = pg_exception_context;
          outcomes := outcomes || jsonb_build_object('code', code, 'constraint', broken, 'column', field, 'context', context);
      end;
    end loop;
    perform set_config('${own('outcomes')}', outcomes::text, true);
  end $block$`

/** Returns the statement that creates plants. It returns the ids of the writes that were made; it waits `lockMs` for a lock. */
export function createPlants(writes: readonly PlantWrite[], lockMs: number) {
  const writeIds = toArray(writes.map(({ writeId }) => writeId))
  const plants = toArrayParameters(writes.map(({ plant }) => plant))
  return { name: 'create plants', text: insert, values: [writeIds, ...plants, `${lockMs}ms`] }
}

/** Writes a text as a literal, whatever standard_conforming_strings is. */
const literal = (text: string) => `E'${text.replaceAll(/[\\']/g, '$&$&')}'`

/**
 * Returns the statements, in one message and so in one transaction, that create plants one by one within a limit. The rows
 * come as settings of the transaction, because a block has no parameters. A row waits for a lock for its share of the limit.
 */
export function createEachPlant(writes: readonly PlantWrite[], limitMs: number) {
  const lists = [
    toArray(writes.map(({ writeId }) => writeId)),
    ...toArrayParameters(writes.map(({ plant }) => plant))
  ]
  const made = {
    statement_timeout: `${limitMs}ms`,
    array_nulls: 'on',
    [own('soft_limit')]: `${Math.ceil(limitMs / 2)}ms`,
    ...Object.fromEntries(writtenColumns.map((name, index) => [own(name), lists[index] as string]))
  }
  const configs = Object.entries(made).map(
    ([name, value]) => `set_config('${name}', ${literal(value)}, true)`
  )
  const lockMs = Math.ceil(limitMs / 2 / writes.length)
  return {
    text: [
      `select ${settings(`'${lockMs}ms'`)}, concat(${configs.join(', ')})`,
      insertNone,
      insertEach,
      `select current_setting('${own('outcomes')}') as outcomes`
    ].join(';\n')
  }
}

/** What the block says of a row: whether it was written, or its error. */
export type EachOutcome = boolean | { code: string; constraint?: string; column?: string; context?: string }

/** Returns an error of a row as PostgreSQL reports it, with its context if the row has one of its own, as of a trigger. */
export function toRowError({ code, constraint, column, context = '' }: Exclude<EachOutcome, boolean>) {
  const where = context.split('\n').slice(0, -linesOfBlock).join('\n') || undefined
  // The rights were there for the insert of no rows, so it is a policy that has refused the row.
  const routine = code === '42501' && where === undefined ? 'ExecWithCheckOptions' : undefined
  const fields = {
    severity: 'ERROR',
    code,
    where,
    routine,
    constraint: constraint || undefined,
    column: column || undefined
  }
  return Object.assign(new StacklessError('a row has failed'), fields)
}

/** Returns the statement that finds the rows with these ids. When it has ended, the standby has what it found. */
export const findPlants = (ids: readonly bigint[]) => ({
  name: 'find plants',
  text: find,
  values: [toArray(ids.map(String))]
})

/** Returns the statement that finds which of these plants are stored with this content. */
export const comparePlants = (plants: readonly NewPlant[]) => ({
  name: 'compare plants',
  text: compare,
  values: toArrayParameters(plants)
})

/** Commits as a create does, without a plant. */
export const commitNothing = { name: 'commit nothing', text: insertNothing }

const readList = `${writtenList}, created_at`

/** Selects no row, and fails if the table lacks a column that this build needs. */
export const selectRequired = `select ${readList} from plants limit 0`

// The setting, not the schemas in effect: PostgreSQL leaves out those that the role may not use.
const searchPath = `
  regexp_split_to_array(replace(current_setting('search_path'), '"$user"', quote_ident(current_user)), ', *')`

/** Lists the statements that grant the rights that the role lacks; none for a table or a column that is not there. */
export const selectMissingRights = `
  select format('grant usage on schema %I to %I', nspname, current_user) as sql
  from pg_namespace join pg_class on relnamespace = pg_namespace.oid
  where to_regclass('plants') is null and relname = 'plants' and quote_ident(nspname) = any (${searchPath})
    and not has_schema_privilege(nspname, 'usage')
  union all
  select format('grant %s (%s) on %s.%I to %I', privilege, string_agg(quote_ident(attname), ', ' order by attnum),
    relnamespace::regnamespace, relname, current_user)
  from (values ('select', '{${readList}}'::name[]), ('insert', '{${writtenList}}')) as needed (privilege, names)
    join pg_attribute on attrelid = to_regclass('plants') and attname = any (names)
    join pg_class on pg_class.oid = attrelid
  where not has_column_privilege(attrelid, attnum, privilege)
  group by privilege, relnamespace, relname
  union all
  select format('grant usage on language plpgsql to %I', current_user)
  from pg_language where lanname = 'plpgsql' and not has_language_privilege(oid, 'usage')
  union all
  select format('grant execute on function %s to %I', oid::regprocedure, current_user)
  from pg_proc
  where proname = 'pg_logical_emit_message' and proargtypes[2] = 'text'::regtype and not has_function_privilege(oid, 'execute')`

/** Lists the faults of the table that a statement without rows does not meet, each with its remedy. */
export const selectMisfits = `
  with plants as (
    select oid, relpersistence, format('%I.%I', relnamespace::regnamespace, relname) as name
    from pg_class where oid = to_regclass('plants')
  )
  select format('column %I of %s is required, but not written: alter table %2$s alter %1$I set default …', attname, name) as sql
  from plants join pg_attribute on attrelid = plants.oid join pg_type on pg_type.oid = atttypid
  where attnum > 0 and not attisdropped and not atthasdef and attidentity = '' and attname <> all ('{${writtenList}}')
    and typdefault is null
    -- A trigger before the insert of a row may set a column, but not one whose domain is not null.
    and (attnotnull and not exists (
      select from pg_trigger where tgrelid = plants.oid and tgenabled in ('O', 'A') and tgtype & 7 = 7
    ) or exists (
      with recursive base as (
        select pg_type.typbasetype, pg_type.typnotnull
        union all select next.typbasetype, next.typnotnull from base join pg_type as next on next.oid = base.typbasetype
      ) select from base where typnotnull
    ))
  union all
  select format('rule %I of %s excludes creates: drop rule %1$I on %2$s', rulename, name)
  from plants join pg_rewrite on ev_class = plants.oid
  where ev_type in ('2', '3') and ev_enabled <> 'D'
  union all
  select format('table %s loses plants in a crash: alter table %1$s set logged', parts.oid::regclass)
  from plants, lateral (
    select plants.oid union select relid from pg_partition_tree(plants.oid)
  ) as parts join pg_class on pg_class.oid = parts.oid
  where pg_class.relpersistence <> 'p'`

/** What the database must pass before the service uses it: settings, rights, columns, the table, and the statements. */
export const databaseChecks = makeChecks({
  selectRequired,
  selectMissingRights,
  selectMisfits,
  statements: [createPlants([], lookupLockMs), findPlants([]), comparePlants([]), commitNothing]
})
