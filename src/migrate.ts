/** Migrating the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { checkServer, checkSession, waitForDatabase } from './database/checks.ts'
import { createConnector } from './database/connector.ts'
import type { DatabaseOptions } from './database/url.ts'
import { StartupFault } from './startup-fault.ts'

interface MigrationOptions {
  readonly database: DatabaseOptions
  /** How long to wait for the database, and then as long again for locks. */
  readonly startupTimeoutMs: number
  /** Called with what the database lacks while it is waited for. */
  readonly tell?: (missing: string) => void
}

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
  await waitForDatabase(() => database, startupTimeoutMs, [checkServer, checkSession], tell)
  const deadline = performance.now() + startupTimeoutMs
  const client = await createConnector(database)(startupTimeoutMs)
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
        // The library reports some missing rights as a text with a stack, and without a code.
        const [denied] = /permission denied[^\n]*/.exec(message) ?? []
        if (denied) throw new StartupFault([`${denied}: run the migrations as the owner of the tables`])
        if (code !== '55P03') throw error
        if (performance.now() > deadline)
          throw new StartupFault(['another migration or transaction on the table holds a lock for too long'])
        await sleep(retryAfterMs)
      }
  } finally {
    await client.end()
  }
}
