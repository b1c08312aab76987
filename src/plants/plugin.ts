/** The application's repository of plants over its store, and its metrics: the attempts, and what waits. */
import { Histogram } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import database, { type DatabaseSettings } from '../database/plugin.ts'
import { statementLimitMs } from '../database/session.ts'
import { type AttemptOutcome, GroupCommit } from '../group-commit/group-commit.ts'
import type { Limits } from '../group-commit/types.ts'
import { addMetric, prefix } from '../metrics.ts'
import type { Tracing } from '../tracing.ts'
import { databaseChecks } from './checks.ts'
import { PlantRepository } from './repository.ts'
import { createSqlStore } from './sql-store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

interface Options extends Pick<DatabaseSettings, 'url' | 'startupTimeoutMs'> {
  /** `queueRows`: the plants that wait for their outcome, or whose response is not taken. A large one counts as several. */
  write: Limits & { readonly queueRows: number }
  tracing?: Tracing | undefined
}

const downMessage =
  'the database has been unreachable for the write deadline; refusing creates until it is back'

export default fp<Options>(async (app, { url, startupTimeoutMs, write, tracing }) => {
  await app.register(database, { url, startupTimeoutMs, checks: databaseChecks })
  const store = createSqlStore(app.database, statementLimitMs(write.deadlineMs))
  const groupCommit = new GroupCommit(tracing?.traceStore(store) ?? store, write, {
    onAttempt: measureAttempts(),
    onOutage: (isDown, cause) =>
      isDown ? app.log.error({ cause }, downMessage) : app.log.info('the database is back')
  })
  app.decorate('plants', new PlantRepository(groupCommit, write.queueRows, tracing))
  addMetric('queue_rows', 'Plants that wait for their outcome', () => groupCommit.load.rows)
  const waitHelp = 'Expected wait of a new plant'
  addMetric('queue_expected_seconds', waitHelp, () => groupCommit.load.expectedMs / 1000)
  const awayHelp = '1 while creates are refused because the database is unreachable'
  addMetric('database_away', awayHelp, () => +groupCommit.load.databaseDown)
  // Hooks of onClose run from the last to the first, so the sessions end after the group commit.
  app.addHook('onClose', () => groupCommit.close())
})

/** Adds the metrics of attempts. Returns a function that counts one. */
function measureAttempts() {
  const rowsOfBatches = new Histogram({
    name: `${prefix}batch_rows`,
    help: 'Plants in a transaction that was committed',
    buckets: Array.from({ length: 13 }, (_, power) => 2 ** power)
  })
  const durations = new Histogram({
    name: `${prefix}batch_duration_seconds`,
    help: 'Time of one attempt to write a batch, or to look plants up, by its success or the kind of its failure',
    labelNames: ['outcome'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
  })
  return (rows: number, ms: number, outcome: AttemptOutcome) => {
    durations.observe({ outcome }, ms / 1000)
    if (outcome === 'written') rowsOfBatches.observe(rows)
  }
}
