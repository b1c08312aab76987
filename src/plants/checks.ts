/** What the service needs of its database, and of the table of plants. */
import { type Check, checkServer, checkStatements } from '../database/checks.ts'
import { commitNothing, createEachPlant, createPlants, findPlants, writtenColumns } from './statements.ts'

/** In ms: a statement without rows needs no lock that others hold for long. */
const lockMs = 25
/** In ms: the limit of the careful call, which a busy machine must not miss. */
const eachLimitMs = 5_000

// Only a crash, or a row, would meet these. A trigger before the insert may set a column; a policy may admit rows.
const selectFaults = `
  with plants as (
    select oid, format('%I.%I', relnamespace::regnamespace, relname) as name from pg_class where oid = to_regclass('plants')
  )
  select format('table %s loses plants in a crash: alter table %1$s set logged', parts.oid::regclass) as fault
  from plants, lateral (select plants.oid union select relid from pg_partition_tree(plants.oid)) as parts
  join pg_class on pg_class.oid = parts.oid where relpersistence <> 'p'
  union all
  select format('column %I of %s is required, but not written: alter table %2$s alter %1$I set default …', attname, name)
  from plants join pg_attribute on attrelid = plants.oid join pg_type on pg_type.oid = atttypid
  where attnum > 0 and not attisdropped and (attnotnull or typnotnull) and not atthasdef and typdefault is null
    and attidentity = '' and attname <> all ('{${writtenColumns}}')
    and not exists (select from pg_trigger where tgrelid = plants.oid and tgenabled in ('O', 'A') and tgtype & 7 = 7)
  union all
  select format('the unique rule %I of %s is deferrable, so that no create can use it', conname, name)
  from plants join pg_constraint on conrelid = plants.oid where contype in ('p', 'u') and condeferrable
  union all
  select format('row security of %s refuses every create: give %I a policy for insert, or bypassrls', name, current_user)
  from plants where row_security_active(plants.oid) and not exists (
    select from pg_policy where polrelid = plants.oid and polpermissive and polcmd in ('a', '*')
      and (polroles = '{0}' or exists (select from unnest(polroles) as role where pg_has_role(role, 'usage')))
  )`

const checkTable: Check = async (client) => {
  const { rows } = await client.query(selectFaults)
  return rows.map(({ fault }) => fault).join('; ') || undefined
}

/** What the database must pass before the service uses it, in the order in which an operator would mend it. */
export const databaseChecks = [
  checkServer,
  checkStatements([
    createPlants([], lockMs),
    createEachPlant([], eachLimitMs),
    findPlants([]),
    commitNothing
  ]),
  checkTable
]
