/** What this build needs of its database: settings, rights, and columns. */
import {
  type Check,
  checkCommits,
  checkEncoding,
  checkMigrated,
  checkRights,
  checkWritable
} from '../database/readiness.ts'
import { selectFunction, written } from './statements.ts'

const read = `${written}, created_at`

/** Takes no row, and fails where the table lacks a column that this build needs. */
export const selectRequired = `select ${read} from plants limit 0`

// A schema without the right to use it is left out of the search path, as if the table were not there.
const searchPath = `
  regexp_split_to_array(replace(current_setting('search_path'), '"$user"', quote_ident(current_user)), ', *')`

/** Lists the statements that grant the rights which the role lacks; none for a table or a column that is not there. */
export const selectMissingRights = `
  select format('grant usage on schema %I to %I', nspname, current_user) as sql
  from pg_namespace join pg_class on relnamespace = pg_namespace.oid
  where to_regclass('plants') is null and relname = 'plants' and quote_ident(nspname) = any (${searchPath})
    and not has_schema_privilege(nspname, 'usage')
  union all
  select format('grant %s (%s) on %s.%I to %I', privilege, string_agg(quote_ident(attname), ', ' order by attnum),
    relnamespace::regnamespace, relname, current_user)
  from (values ('select', '{${read}}'::name[]), ('insert', '{${written}}')) as needed (privilege, names)
    join pg_attribute on attrelid = to_regclass('plants') and attname = any (names)
    join pg_class on pg_class.oid = attrelid
  where not has_column_privilege(attrelid, attnum, privilege)
  group by privilege, relnamespace, relname
  union all
  select format('grant execute on function %s to %I', oid::regprocedure, current_user)
  from (${selectFunction}) as functions
  where not has_function_privilege(oid, 'execute')`

/** What the database must pass before the service uses it. */
export const databaseChecks: Check[] = [
  checkEncoding,
  checkCommits,
  checkWritable,
  // Before the migrations: without its rights, the role cannot see the table.
  checkRights(selectMissingRights),
  checkMigrated(selectRequired)
]
