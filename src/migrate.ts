/** Migrating the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { checkNoRow, describeGrants, settingChecks } from './database/checks.ts'
import { openSession } from './database/hosts.ts'
import type { DatabaseOptions } from './database/url.ts'
import { waitForDatabase } from './database/wait-for-database.ts'
import { StartupFault } from './startup-fault.ts'

interface MigrationOptions {
  readonly database: DatabaseOptions
  /** How long to wait for the database, and then as long again for locks. */
  readonly startupTimeoutMs: number
  /** Called with what the database lacks while it is waited for. */
  readonly tell?: (missing: string) => void
}

/** Lists the statements that grant the rights that the role lacks, in the first schema of its search path that it may use. */
const selectMissingRights = `
  select format('grant usage, create on schema %I to %I', schema, current_user) as sql
  from coalesce(current_schema(), 'public') as schema
  where not has_schema_privilege(schema, 'create') or not has_schema_privilege(schema, 'usage')
  union all
  select format('grant select, insert, delete on %s to %I', oid::regclass, current_user)
  from pg_class where oid = to_regclass('migrations') and not has_table_privilege(oid, 'select')`

const dir = fileURLToPath(new URL('../migrations', import.meta.url))
/** How long a migration waits for a lock. Not longer: while it waits for the table's, every create waits behind it. */
const lockLimitMs = 1_000
/** How long creates are left alone before the next attempt. */
const retryAfterMs = 1_000

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
    // This limits the wait for node-pg-migrate's advisory lock, too, which has no time-out of its own.
    await client.query(`set lock_timeout = ${lockLimitMs}`)
    for (;;)
      try {
        const [done] = await runner(options)
        if (done) names.push(done.name)
        if (!done || direction === 'down') return names
      } catch (error) {
        const { code, message } = error as Error & { code?: string }
        await client.query('rollback')
        if (code !== '55P03') {
          // The library reports a missing right as a text with a stack: ask for the grant instead.
          const missing = await checkNoRow(selectMissingRights, describeGrants)(client)
          if (missing)
            throw new StartupFault([`${missing} or run the migrations as the owner of the tables.`])
          if (code === '42501')
            throw new StartupFault([`${message}: run the migrations as the owner of the tables`])
          throw error
        }
        if (performance.now() > deadline)
          throw new StartupFault(['another migration or transaction on the table holds a lock for too long'])
        await sleep(retryAfterMs)
      }
  } finally {
    await client.end()
  }
}
