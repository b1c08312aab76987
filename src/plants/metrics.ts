/** The metrics of the writes: plants, batches, the queue. */
import type { Registry } from '@prometheus-io/client'
import type { AttemptReport } from '../group-commit/types.ts'
import { addCounter, addGauge, addHistogram, type Series } from '../metrics/metrics.ts'
import type { QueueStats, Stored, WriteLimits } from './repository.ts'

const seconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const rows = Array.from({ length: 13 }, (_, power) => 2 ** power)
const outcomes: AttemptReport['outcome'][] = ['written', 'database', 'row', 'unclear', 'unknown']

/** Adds the metrics of the repository to a registry, and returns what counts them. */
export function createPlantMetrics(registry: Registry) {
  const plants: Record<Stored, number> = { created: 0, replayed: 0 }
  const help = 'Successful creates: created, or replayed for a repeated Idempotency-Key'
  addCounter(registry, 'plants', help, () => plants, 'outcome')
  const ofRows = 'Plants in a transaction that was committed'
  const batchRows = addHistogram(registry, 'batch_rows', ofRows, rows)()
  const ofDuration = 'Time of one attempt to commit a batch: written, or whose failure it was'
  const batchDuration = addHistogram(registry, 'batch_duration_seconds', ofDuration, seconds)
  const durationOf = Object.fromEntries(
    outcomes.map((outcome) => [outcome, batchDuration({ outcome })])
  ) as Record<AttemptReport['outcome'], Series>

  return {
    /** Counts a create that succeeded. */
    onStored(outcome: Stored) {
      plants[outcome]++
    },

    /** Counts an attempt of a batch. */
    onAttempt({ rows, ms, outcome }: AttemptReport) {
      durationOf[outcome].observe(ms / 1000)
      if (outcome === 'written') batchRows.observe(rows)
    },

    /** Shows a repository's state on the page. */
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
      gauge(
        'database_away',
        '1 while creates are refused because the database is away',
        () => +load().databaseDown
      )
    }
  }
}
