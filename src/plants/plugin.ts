/** The application's repository of plants, and its metrics: the attempts, and what waits. */
import { Histogram, type Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import type { AttemptOutcome } from '../group-commit/group-commit.ts'
import { addGauge, prefix } from '../metrics.ts'
import type { Tracing } from '../tracing.ts'
import { PlantRepository, type WriteLimits } from './repository.ts'
import { createSqlStore } from './sql-store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

interface Options {
  registry: Registry
  write: WriteLimits
  tracing?: Tracing | undefined
}

export default fp<Options>(
  async (app, { registry, write, tracing }) => {
    const store = createSqlStore(app.database, write.deadlineMs)
    const onAttempt = measureAttempts(registry)
    const plants = new PlantRepository(store, { limits: write, log: app.log, onAttempt, tracing })
    app.decorate('plants', plants)
    const rowsHelp = 'Plants that wait for their outcome'
    addGauge(registry, 'queue_rows', rowsHelp, () => plants.load.rows)
    const waitHelp = 'Expected wait of a new plant'
    addGauge(registry, 'queue_expected_seconds', waitHelp, () => plants.load.expectedMs / 1000)
    const awayHelp = '1 while creates are refused because the database is unreachable'
    addGauge(registry, 'database_away', awayHelp, () => +plants.load.databaseDown)
    // Hooks of onClose run from the last to the first, so the sessions end after the repository.
    app.addHook('onClose', () => plants.close())
  },
  { name: 'plant-repository', dependencies: ['database'] }
)

/** Attempts as operators know them: their success, or whose failure it was. */
const outcomes: Record<AttemptOutcome, string> = {
  written: 'written',
  found: 'found',
  away: 'database',
  gone: 'database',
  refused: 'row',
  busy: 'unclear',
  broken: 'unclear',
  lost: 'unknown'
}

/** Adds the metrics of attempts. Returns a function that counts one. */
function measureAttempts(registry: Registry) {
  const registers = [registry]
  const rowsOfBatches = new Histogram({
    name: `${prefix}batch_rows`,
    help: 'Plants in a transaction that was committed',
    buckets: Array.from({ length: 13 }, (_, power) => 2 ** power),
    registers
  })
  const durations = new Histogram({
    name: `${prefix}batch_duration_seconds`,
    help: 'Time of one attempt to write a batch, or to look plants up: its success, or whose failure it was',
    labelNames: ['outcome'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers
  })
  for (const outcome of Object.values(outcomes)) durations.zero({ outcome })
  return (rows: number, ms: number, outcome: AttemptOutcome) => {
    durations.observe({ outcome: outcomes[outcome] }, ms / 1000)
    if (outcome === 'written') rowsOfBatches.observe(rows)
  }
}
