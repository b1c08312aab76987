/**
 * Gives the application its repository of plants, `app.plants`, and the metrics of it. The store is
 * in the database, unless the application was given another one.
 */
import { Histogram } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import {
  type Check,
  checkNewSession,
  checkServer,
  checkStatements,
  warnOfCrashes
} from '../database/checks.ts'
import { openDatabase } from '../database/database.ts'
import { statementLimitMs } from '../database/session.ts'
import { defer } from '../deferred.ts'
import type { Hooks } from '../group-commit/group-commit.ts'
import { addGauge, prefix } from '../metrics.ts'
import { StartupFault } from '../startup-fault.ts'
import type { Tracing } from '../tracing.ts'
import { createRepository, type PlantRepository, type PlantStore } from './repository.ts'
import { createSqlStore } from './sql-store.ts'
import { samples } from './statements.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

type Options = Config & { store: PlantStore | undefined; tracing: Tracing | undefined }

// Selects faults of the table that no planned statement shows, but a row or a crash would.
const selectFaults = `
  select format('the unique rule %I of plants is deferrable, so that no create can use it', conname)
    as fault
  from pg_constraint
  where conrelid = to_regclass('plants') and contype in ('p', 'u') and condeferrable
  union all
  select format('the table %s is unlogged, so that a crash empties it: '
    'run alter table %1$s set logged', oid::regclass)
  from pg_class where relkind = 'r' and relpersistence = 'u' and (
    oid = to_regclass('plants')
    or oid in (select relid from pg_partition_tree(to_regclass('plants')))
  )
  union all
  select format('row security of plants refuses every create, as no policy lets this role %s: '
    'add policies for insert and for select, or give the role bypassrls', command)
  from (values ('insert', 'a'), ('select', 'r')) as needed (command, letter)
  where row_security_active('plants') and not exists (
    select from pg_policy
    where polrelid = to_regclass('plants') and polpermissive and polcmd::text in ('*', letter)
      and exists (
        select from unnest(polroles) as role
        where case when role = 0 then true else pg_has_role(role, 'usage') end
      )
  )`

const checkTable: Check = async (client) => (await client.query(selectFaults)).rows[0]?.fault

const crashMessage =
  'these settings of PostgreSQL are off: a crash of its machine can lose or damage all plants; ' +
  'leave them off only for development and tests'

/** Opens the database, and returns the store in it. Throws a StartupFault if none is configured. */
function openStore(
  app: FastifyInstance,
  { database: url, write, STARTUP_TIMEOUT_MS: timeoutMs }: Config
) {
  if (!url)
    throw new StartupFault([
      'the configuration has no database, and the application was given no store'
    ])
  const warn = (settings: string[]) => app.log.warn({ settings }, crashMessage)
  const checks = {
    // The checks have the order in which an operator would fix what they find.
    start: [checkServer, checkStatements(samples), checkTable, warnOfCrashes(warn)],
    session: [checkNewSession, checkTable]
  }
  const database = openDatabase(app, url, checks, timeoutMs)
  return createSqlStore(database, statementLimitMs(write.deadlineMs))
}

const downMessage =
  'the database has been unavailable for the write deadline; refusing creates until it is back'

export default fp<Options>(async (app, config) => {
  const store = config.store ?? openStore(app, config)
  const registers = [app.metrics]
  const rowsOfBatches = new Histogram({
    name: `${prefix}batch_rows`,
    help: 'Plants in a transaction that was committed',
    registers,
    collect: () => attempts.finish(),
    // Up to `batchRows` of config.ts.
    buckets: Array.from({ length: 9 }, (_, power) => 2 ** power)
  })
  const durations = new Histogram({
    name: `${prefix}batch_duration_seconds`,
    help:
      'Time of one attempt to write a batch, or to look plants up, by its result: ' +
      'written, found or the kind of failure',
    labelNames: ['result'],
    registers,
    collect: () => attempts.finish(),
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
  })
  const attempts = defer(([rows, ms, result]: Parameters<Hooks['onAttempt']>) => {
    durations.observe({ result }, ms / 1_000)
    if (result === 'written') rowsOfBatches.observe(rows)
  })
  const plants = createRepository(store, config.write, config.tracing, {
    onAttempt: (...attempt) => attempts.add(attempt),
    onOutage: (isDown, cause) =>
      isDown ? app.log.error({ cause }, downMessage) : app.log.info('the database is back')
  })
  app.decorate('plants', plants)
  addGauge(app.metrics, 'queue_rows', 'Plants that wait for their outcome', () => plants.load.rows)
  const waitHelp = 'Expected wait of a new plant'
  addGauge(app.metrics, 'queue_expected_seconds', waitHelp, () => plants.load.expectedMs / 1000)
  const unavailableHelp = '1 while creates are refused because the database is unavailable'
  addGauge(app.metrics, 'database_unavailable', unavailableHelp, () => +plants.load.databaseDown)
  // Fastify runs onClose hooks from the last to the first. The database was opened before, so its
  // sessions end after the last plant.
  app.addHook('onClose', () => plants.close())
})
