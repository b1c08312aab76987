/** What the service needs of its database, and of the table of plants. */
import { type Check, checkServer, checkStatements } from '../database/checks.ts'
import { samples } from './statements.ts'

// Nothing but a crash would tell.
const checkTable: Check = async (client) => {
  const text = `select from pg_class where oid = to_regclass('plants') and relpersistence <> 'p'`
  const { rowCount } = await client.query(text)
  return rowCount ? 'table plants loses plants in a crash: alter table plants set logged' : undefined
}

/** What the database must pass before the service uses it, in the order in which an operator would mend it. */
export const databaseChecks = [checkServer, checkStatements(samples), checkTable]
