/** The repository with its pool and metrics, and the probe of the database while it is idle. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Databases } from '../database/pool.ts'
import { statementLimitMs } from '../database/statement.ts'
import type { AttemptReport } from '../group-commit/types.ts'
import { addCounter, addGauge, addHistogram } from '../metrics/metrics.ts'
import type { Tracing } from '../tracing/open-telemetry.ts'
import { checkReadiness, probeWhileIdle } from './probe.ts'
import {
  createPlantRepository,
  type MakeRepository,
  type Observer,
  type PlantRepository,
  type QueueStats,
  type WriteLimits
} from './repository.ts'
import { createSqlStore } from './sql-store.ts'
import { selectRequired } from './statements.ts'
import type { Stored } from './write-id.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

interface Options {
  registry: Registry
  write: WriteLimits
  tracing?: Tracing | undefined
  /** Makes what stores plants in place of the database. */
  repository?: MakeRepository | undefined
}

/** For the probe of an outage, besides those of the lanes. */
const probeConnections = 1

/** Makes the repository, with the pool of its writes and probes, which ends with `databases`. */
export function openRepository(
  databases: Databases,
  { write, tracing }: Pick<Options, 'write' | 'tracing'>,
  log: FastifyBaseLogger,
  observer: Observer
) {
  const size = write.lanes + probeConnections
  const database = databases.open({ size, limitMs: statementLimitMs(write.deadlineMs) })
  const plants = createPlantRepository(createSqlStore(database), write, log, observer, tracing)
  let endProbes = () => {}
  return {
    database,
    plants,
    /** Probes the database while it is idle, until `close`. */
    startProbes() {
      const probe = () => checkReadiness(database, selectRequired)
      const isIdle = () => plants.load.rows === 0 && !plants.load.databaseDown
      endProbes = probeWhileIdle(probe, isIdle, plants.noteAway)
    },
    /** Resolves when every create has its response. */
    close() {
      endProbes()
      return plants.close()
    }
  }
}

const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const rows = Array.from({ length: 13 }, (_, power) => 2 ** power)
/** Attempts as operators know them: written, looked up, or whose failure it was. */
const outcomes: Record<AttemptReport['outcome'], string> = {
  written: 'written',
  found: 'found',
  away: 'database',
  gone: 'database',
  refused: 'row',
  chance: 'unclear',
  busy: 'unclear',
  broken: 'unclear',
  lost: 'unknown'
}

/** Adds the metrics of the repository to a registry, and returns the callbacks that count. */
function createPlantMetrics(registry: Registry) {
  const plants: Record<Stored, number> = { created: 0, replayed: 0 }
  const help = 'Successful creates: created, or replayed for a repeated Idempotency-Key'
  addCounter(registry, 'plants', help, () => plants, 'outcome')
  const ofRows = 'Plants in a transaction that was committed'
  const batchRows = addHistogram(registry, 'batch_rows', ofRows, rows)()
  const ofDuration =
    'Time of one attempt to write a batch, or to look plants up: its success, or whose failure it was'
  const batchDuration = addHistogram(registry, 'batch_duration_seconds', ofDuration, seconds)
  const names = new Set(Object.values(outcomes))
  const byName = new Map([...names].map((outcome) => [outcome, batchDuration({ outcome })]))

  return {
    onStored(outcome: Stored) {
      plants[outcome]++
    },

    onAttempt({ rows, ms, outcome }: AttemptReport) {
      byName.get(outcomes[outcome])?.observe(ms / 1000)
      if (outcome === 'written') batchRows.observe(rows)
    },

    watch(limits: WriteLimits, load: () => QueueStats) {
      const gauge = addGauge.bind(undefined, registry)
      gauge('queue_rows', 'Plants that wait for their outcome', () => load().rows)
      gauge('queue_rows_limit', 'WRITE_QUEUE_ROWS', () => limits.queueRows)
      gauge('queue_bytes', 'Bytes of the plants whose response is not taken', () => load().bytes)
      gauge('queue_bytes_limit', 'WRITE_QUEUE_BYTES', () => limits.queueBytes)
      const expected = 'Expected wait of a new plant'
      gauge('queue_expected_seconds', expected, () => load().expectedMs / 1000)
      gauge('lanes_busy', 'Lanes with a batch', () => load().busyLanes)
      gauge('lanes_limit', 'WRITE_LANES', () => limits.lanes)
      const away = '1 while creates are refused because the database is unreachable'
      gauge('database_away', away, () => +load().databaseDown)
    }
  }
}

export default fp<Options>(
  async (app, { registry, repository, ...options }) => {
    const metrics = createPlantMetrics(registry)
    const given = repository?.(app.log, metrics)
    const { plants, startProbes, close } = given
      ? { plants: given, startProbes() {}, close: () => given.close() }
      : openRepository(app.databases, options, app.log, metrics)
    metrics.watch(options.write, () => plants.load)
    app.decorate('plants', plants)
    // Not earlier: until then, the start waits for the database and reports that.
    app.addHook('onListen', async () => startProbes())
    // The pools end later: hooks of onClose run from the last to the first.
    app.addHook('onClose', close)
  },
  { name: 'plants', dependencies: ['databases'] }
)
