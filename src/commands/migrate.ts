/** The process that migrates the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { readMigrationConfig } from '../config.ts'
import { checkServer, checkSession, waitForDatabase } from '../database/checks.ts'
import { createConnector } from '../database/connector.ts'
import type { DatabaseOptions } from '../database/url.ts'
import { reportStartupFault, StartupFault } from '../startup-fault.ts'

/** How long a migration waits for a lock. Not longer: while it waits for the table's, every create waits behind it. */
const lockLimitMs = 1_000
/** How long creates are left alone before the next attempt. */
const retryAfterMs = 1_000

try {
  if (process.argv.length > 2) throw new StartupFault(['migrate takes no arguments'])
  const say = (line: string) => process.stderr.write(`plant-store: ${line}\n`)
  const { database, startupTimeoutMs } = readMigrationConfig(process.env)
  const { exposedHost: host } = database
  if (host !== undefined) say(`the connection to ${host} is not encrypted: add an sslmode to the URL`)
  const tell = (missing: string) => say(`waiting: ${missing}`)
  await waitForDatabase(() => database, startupTimeoutMs, [checkServer, checkSession], tell)
  const names = await migrate(database, startupTimeoutMs)
  process.stdout.write(names[0] ? `migrated: ${names.join(', ')}\n` : 'nothing to migrate\n')
} catch (error) {
  reportStartupFault(error)
}

/** Applies every migration that is missing, and returns their names. Waits for locks for up to `timeoutMs`. */
async function migrate(database: DatabaseOptions, timeoutMs: number): Promise<string[]> {
  const deadline = performance.now() + timeoutMs
  const client = await createConnector(database)(timeoutMs)
  const options = {
    dbClient: client,
    dir: fileURLToPath(new URL('../../migrations', import.meta.url)),
    direction: 'up' as const,
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
        if ((error as { code?: string }).code !== '55P03') throw error
        if (performance.now() > deadline)
          throw new StartupFault(['another migration or transaction on the table holds a lock for too long'])
        await sleep(retryAfterMs)
      }
  } finally {
    await client.end()
  }
}
