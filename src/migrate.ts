/** Migrating the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { checkServer, checkSession, waitForDatabase } from './database/checks.ts'
import { createConnector } from './database/connector.ts'
import type { DatabaseOptions } from './database/url.ts'
import { StartupFault } from './startup-fault.ts'

const dir = fileURLToPath(new URL('../migrations', import.meta.url))
/** How long a migration waits for a lock. Not longer: while it waits for the table's, every create waits behind it. */
const lockLimitMs = 1_000
/** How long creates are left alone before the next attempt. */
const retryAfterMs = 1_000

/**
 * Applies every migration that is missing (`up`) or reverts the newest one (`down`), and returns their names. Throws a
 * StartupFault when it waits for longer than `timeoutMs` for the database, or then for the locks. `tell` is called with what the
 * database lacks while it is waited for.
 */
export async function migrate(
  direction: 'up' | 'down',
  database: DatabaseOptions,
  timeoutMs: number,
  tell?: (missing: string) => void
): Promise<string[]> {
  await waitForDatabase(() => database, timeoutMs, [checkServer, checkSession], tell)
  const deadline = performance.now() + timeoutMs
  const client = await createConnector(database)(timeoutMs)
  const options = {
    dbClient: client,
    dir,
    direction,
    migrationsTable: 'migrations',
    singleTransaction: true,
    advisoryLockMode: 'wait' as const,
    log: () => {}
  }
  try {
    // This limits the wait for node-pg-migrate's advisory lock, too, which has no time-out of its own.
    await client.query(`set lock_timeout = ${lockLimitMs}`)
    for (;;)
      try {
        return (await runner(options)).map(({ name }) => name)
      } catch (error) {
        const { code, message } = error as Error & { code?: string }
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
