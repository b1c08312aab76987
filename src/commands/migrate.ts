/** The process that migrates the database to the schema that this build needs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readMigrationConfig } from '../config.ts'
import type { DatabaseOptions } from '../database/url.ts'
import { reportStartupFault, StartupFault } from '../startup-fault.ts'

/**
 * How long an attempt waits for a lock. Do not make it longer: while an attempt waits for the lock
 * on the table, every create waits behind it.
 */
const lockLimitMs = 1_000
/** How long creates can run undisturbed before the next attempt. */
const retryAfterMs = 1_000

try {
  if (process.argv.length > 2) throw new StartupFault(['migrate takes no arguments'])
  const say = (line: string) => process.stderr.write(`plant-store: ${line}\n`)
  const { database, startupTimeoutMs } = readMigrationConfig(process.env)
  // `readMigrationConfig` refuses NODE_PG_FORCE_NATIVE, which the driver reads when it is imported.
  // So import the driver only now.
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
 * Applies every missing migration, and returns their names. Waits for locks for up to `timeoutMs`.
 * All settings and locks belong to one transaction, because with a pooler the next transaction can
 * be in another session, and this session can go to another client.
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
    // Our transaction is already open when the runner begins its own, so the two are one. The
    // runner's commit or rollback ends it.
    singleTransaction: true,
    // The runner's own lock would belong to the session. Ours has the same number, so that an
    // earlier release waits for it, too.
    noLock: true,
    // Only the runner's log says which migration it has begun.
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
        // If nothing was missing, the runner has not ended the transaction.
        await client.query('commit')
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

/**
 * Returns an error with the name of the migration that has failed, or the error itself if no
 * migration has begun.
 */
function nameMigration(error: Error, name: string | undefined): Error {
  if (name === undefined) return error
  return new StartupFault([`the migration ${name} has failed: ${error.message.split('\n', 1)[0]}`])
}
