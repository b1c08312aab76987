/** The process that migrates the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readMigrationConfig } from '../config.ts'
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
  // Not before: a variable that the driver reads when it is imported is a fault.
  const { checkServer, waitForDatabase } = await import('../database/checks.ts')
  const { exposedHost: host } = database
  if (host !== undefined)
    say(`the connection to ${host} is not encrypted: add an sslmode to the URL`)
  const tell = (missing: string) => say(`waiting: ${missing}`)
  await waitForDatabase(() => database, startupTimeoutMs, [checkServer], tell)
  const names = await migrate(database, startupTimeoutMs)
  process.stdout.write(names[0] ? `migrated: ${names.join(', ')}\n` : 'nothing to migrate\n')
} catch (error) {
  reportStartupFault(error)
}

/**
 * Applies every migration that is missing, and returns their names. Waits for locks for up to `timeoutMs`. All that it sets and
 * locks belongs to one transaction: a pooler may run the next one in another session, and keep this one for somebody else.
 */
async function migrate(database: DatabaseOptions, timeoutMs: number): Promise<string[]> {
  const deadline = performance.now() + timeoutMs
  const { createConnector } = await import('../database/connector.ts')
  const { PG_MIGRATE_LOCK_ID, runner } = await import('node-pg-migrate')
  const client = await createConnector(database)(timeoutMs)
  let begun: string | undefined
  const options = {
    dbClient: client,
    dir: fileURLToPath(new URL('../../migrations', import.meta.url)),
    direction: 'up' as const,
    migrationsTable: 'migrations',
    // Its own transaction becomes a part of ours, which its commit or rollback ends.
    singleTransaction: true,
    // Its own lock would be the session's. Ours has the same number, so that an earlier release waits for it, too.
    noLock: true,
    // The runner says in no other way which migration it has begun.
    log: (line: string) => {
      begun = /^### MIGRATION (\S+)/.exec(line)?.[1] ?? begun
    }
  }
  try {
    for (;;)
      try {
        await client.query('begin')
        await client.query(`set local lock_timeout = ${lockLimitMs}`)
        await client.query(`select pg_advisory_xact_lock(${PG_MIGRATE_LOCK_ID})`)
        const done = await runner(options)
        await client.query('commit') // Where nothing was missing, nothing has ended the transaction.
        return done.map(({ name }) => name)
      } catch (error) {
        if ((error as { code?: string }).code !== '55P03')
          throw nameMigration(error as Error, begun)
        if (performance.now() > deadline)
          throw new StartupFault([
            'another migration or transaction on the table holds a lock for too long'
          ])
        await client.query('rollback')
        await sleep(retryAfterMs)
      }
  } finally {
    await client.end()
  }
}

/** Returns the fault of a migration that has begun, with its name; before one has, the error itself. */
function nameMigration(error: Error, name: string | undefined): Error {
  if (name === undefined) return error
  return new StartupFault([`the migration ${name} has failed: ${error.message.split('\n', 1)[0]}`])
}
