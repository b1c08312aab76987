/** What the service needs of its database, and of the table of plants. */
import { type Check, checkServer, checkStatements } from '../database/checks.ts'
import { samples } from './statements.ts'

// Only a row would meet these.
const selectFaults = `
  select format('the unique rule %I of plants is deferrable, so that no create can use it', conname) as fault
  from pg_constraint where conrelid = to_regclass('plants') and contype in ('p', 'u') and condeferrable
  union all
  select 'row security of plants refuses every create: add a policy for insert, or give the role bypassrls'
  where row_security_active('plants') and not exists (
    select from pg_policy where polrelid = to_regclass('plants') and polcmd in ('a', '*')
  )`

const checkTable: Check = async (client) => (await client.query(selectFaults)).rows[0]?.fault

/** What the database must pass before the service uses it, in the order in which an operator would mend it. */
export const databaseChecks = [checkServer, checkStatements(samples), checkTable]
