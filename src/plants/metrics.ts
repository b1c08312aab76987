/** The metrics of the repository: the attempts, and what waits. */
import type { Registry } from '@prometheus-io/client'
import type { AttemptReport } from '../group-commit/types.ts'
import { addGauge, addHistogram } from '../metrics.ts'
import type { Observer, WriteLoad } from './repository.ts'

/** The bounds of the histograms' buckets. */
const secondsBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const rowsBounds = Array.from({ length: 13 }, (_, power) => 2 ** power)

/** Attempts as operators know them: their success, or whose failure it was. */
const outcomeLabels: Record<AttemptReport['outcome'], string> = {
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

/** Adds the metrics of attempts to a registry. Returns the callback that counts them, and `watch`. */
export function createPlantMetrics(registry: Registry): Observer & { watch(load: () => WriteLoad): void } {
  const rowsHelp = 'Plants in a transaction that was committed'
  const batchRows = addHistogram(registry, 'batch_rows', rowsHelp, rowsBounds)()
  const durationHelp =
    'Time of one attempt to write a batch, or to look plants up: its success, or whose failure it was'
  const batchDuration = addHistogram(
    registry,
    'batch_duration_seconds',
    durationHelp,
    secondsBounds,
    'outcome'
  )
  const labels = new Set(Object.values(outcomeLabels))
  const durations = new Map([...labels].map((outcome) => [outcome, batchDuration({ outcome })]))

  return {
    onAttempt({ rows, ms, outcome }) {
      durations.get(outcomeLabels[outcome])?.observe(ms / 1000)
      if (outcome === 'written') batchRows.observe(rows)
    },

    /** Adds the gauges of what a repository has to do. */
    watch(load) {
      const gauge = addGauge.bind(undefined, registry)
      gauge('queue_rows', 'Plants that wait for their outcome', () => load().rows)
      gauge('queue_expected_seconds', 'Expected wait of a new plant', () => load().expectedMs / 1000)
      const awayHelp = '1 while creates are refused because the database is unreachable'
      gauge('database_away', awayHelp, () => +load().databaseDown)
    }
  }
}
