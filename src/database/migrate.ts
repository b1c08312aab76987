/** Migrating the database to the schema that this build needs. */
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { StartupFault } from '../failures/startup-fault.ts'
import { connect } from './hosts.ts'
import type { ConnectionOptions } from './url.ts'
import { checkEncoding, waitForDatabase } from './wait-for-database.ts'

/** What to migrate, and how long to wait. */
export interface MigrationOptions {
  readonly database: ConnectionOptions
  /** How long to wait for the database, and for a lock, in ms. */
  readonly startupTimeoutMs: number
  /** Called with what it is waiting for. */
  readonly tell?: (missing: string) => void
}

const dir = fileURLToPath(new URL('../../migrations', import.meta.url))

/**
 * Applies every migration that is missing (`up`) or reverts the newest one (`down`), and returns their names.
 * Waits for the database and for other processes that migrate at the same time, up to `startupTimeoutMs` each. Throws a
 * StartupFault when either takes longer.
 */
export async function migrate(
  { database, startupTimeoutMs, tell }: MigrationOptions,
  direction: 'up' | 'down'
): Promise<string[]> {
  await waitForDatabase(() => database, startupTimeoutMs, [checkEncoding], tell)
  const client = await connect(database, { connectionTimeoutMillis: startupTimeoutMs })
  try {
    // The advisory lock of node-pg-migrate has no time-out of its own; lock_timeout bounds it.
    await client.query(`set lock_timeout = ${startupTimeoutMs}`)
    const done = await runner({
      dbClient: client,
      dir,
      direction,
      migrationsTable: 'migrations',
      advisoryLockMode: 'wait',
      log: () => {}
    }).catch((error) => {
      if (error.code !== '55P03') throw error
      throw new StartupFault(['another migration, or a transaction on the table, holds a lock for too long'])
    })
    return done.map((migration) => migration.name)
  } finally {
    await client.end()
  }
}
