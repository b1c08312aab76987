/** Migrating the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { checkNoRow, describeGrants, settingChecks } from '../database/checks.ts'
import { openSession } from '../database/hosts.ts'
import type { DatabaseOptions } from '../database/url.ts'
import { waitForDatabase } from '../database/wait-for-database.ts'
import { StartupFault } from '../failures/failure.ts'

/** What to migrate, how long to wait for it and then for locks, and a callback that gets what it waits for. */
interface MigrationOptions {
  readonly database: DatabaseOptions
  readonly startupTimeoutMs: number
  readonly tell?: (missing: string) => void
}

/** The schema is the first that the role may use. */
const selectMissingRights = `
  select format('grant usage, create on schema %I to %I', schema, current_user) as sql
  from coalesce(current_schema(), 'public') as schema
  where not has_schema_privilege(schema, 'create') or not has_schema_privilege(schema, 'usage')
  union all
  select format('grant select, insert, delete on %s to %I', oid::regclass, current_user)
  from pg_class where oid = to_regclass('migrations') and not has_table_privilege(oid, 'select')`

const dir = fileURLToPath(new URL('../../migrations', import.meta.url))
/** A migration that waits for the table holds up every create: it gives up after this time, and tries again after the same. */
const lockMs = 1_000

/**
 * Applies every migration that is missing (`up`) or reverts the newest one (`down`), and returns their names. Throws a
 * StartupFault when it waits for longer than `startupTimeoutMs` for the database, or then for the locks.
 */
export async function migrate(
  { database, startupTimeoutMs, tell }: MigrationOptions,
  direction: 'up' | 'down'
): Promise<string[]> {
  await waitForDatabase(() => database, startupTimeoutMs, settingChecks, tell)
  const deadline = performance.now() + startupTimeoutMs
  const client = await openSession(database, { connectionTimeoutMillis: startupTimeoutMs })
  const options = {
    dbClient: client,
    dir,
    direction,
    migrationsTable: 'migrations',
    count: 1,
    advisoryLockMode: 'wait' as const,
    log: () => {}
  }
  const names: string[] = []
  try {
    // Bounds the advisory lock of node-pg-migrate, too, which has no time-out of its own.
    await client.query(`set lock_timeout = ${lockMs}`)
    for (;;)
      try {
        const [done] = await runner(options)
        if (done) names.push(done.name)
        if (!done || direction === 'down') return names
      } catch (error) {
        const { code, message } = error as Error & { code?: string }
        await client.query('rollback')
        if (code !== '55P03') {
          // The library reports a missing right in a text, with a stack.
          const missing = await checkNoRow(selectMissingRights, describeGrants)(client)
          if (missing)
            throw new StartupFault([`${missing} or run the migrations as the owner of the tables.`])
          if (code === '42501')
            throw new StartupFault([`${message}: run the migrations as the owner of the tables`])
          throw error
        }
        if (performance.now() > deadline)
          throw new StartupFault(['another migration or transaction on the table holds a lock for too long'])
        await sleep(lockMs)
      }
  } finally {
    await client.end()
  }
}
