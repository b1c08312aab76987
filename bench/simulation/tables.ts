/** The simulation's results as tables. */
import { median } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import type { Commit, Prediction } from './model.ts'

/** What was measured and what the model says, at one number of connections. */
export interface Comparison {
  connections: number
  measured: { plantsPerSecond: number; p50Ms: number }
  simulated: Prediction
}

/** Formats measured and simulated figures beside each other, and by how much they differ. */
export function formatComparison(comparisons: Comparison[]): string {
  const head = [
    'connections',
    'plants/s measured',
    'simulated',
    'off by',
    'p50 ms measured',
    'simulated',
    'off by',
    'rows a batch, simulated'
  ]
  const off = (simulated: number, measured: number) =>
    `${formatNumber((simulated / measured - 1) * 100, 0)} %`
  const lines = comparisons.map(({ connections, measured, simulated }) => [
    String(connections),
    formatNumber(measured.plantsPerSecond, 0),
    formatNumber(simulated.plantsPerSecond, 0),
    off(simulated.plantsPerSecond, measured.plantsPerSecond),
    formatNumber(measured.p50Ms, 2),
    formatNumber(simulated.p50Ms, 2),
    off(simulated.p50Ms, measured.p50Ms),
    formatNumber(simulated.rowsPerBatch, 1)
  ])
  return formatTable([head, ...lines])
}

/** How far the model may be off, as a part of what was measured. */
const aim = 0.15

/** Says how many of the figures are within the aim, and how far the worst is off. */
export function formatAim(comparisons: Comparison[]): string {
  const offs = comparisons.flatMap(({ measured, simulated }) => [
    Math.abs(simulated.plantsPerSecond / measured.plantsPerSecond - 1),
    Math.abs(simulated.p50Ms / measured.p50Ms - 1)
  ])
  const met = offs.filter((off) => off <= aim).length
  const worst = formatNumber(Math.max(...offs) * 100, 0)
  return `The aim, ${aim * 100} %, is met by ${met} of ${offs.length} figures; the worst is off by ${worst} %.`
}

/** Formats what commits of each size took. */
export function formatCommits(commits: Commit[]): string {
  const head = ['rows', 'service CPU ms', 'PostgreSQL CPU ms', 'wait ms, median', 'wait ms, mean', 'commits']
  const lines = commits.map(({ rows, serverMs, databaseMs, waitsMs }) => [
    String(rows),
    formatNumber(serverMs, 3),
    formatNumber(databaseMs, 3),
    formatNumber(median(waitsMs), 3),
    formatNumber(waitsMs.reduce((sum, ms) => sum + ms, 0) / waitsMs.length, 3),
    formatNumber(waitsMs.length, 0)
  ])
  return formatTable([head, ...lines])
}

/** Formats what longer commits do, one line for each length and a column for each number of connections. */
export function formatLatencies(
  latencies: ({ extraMs: number; connections: number } & Prediction)[]
): string {
  const counts = [...new Set(latencies.map(({ connections }) => connections))]
  const extras = [...new Set(latencies.map(({ extraMs }) => extraMs))]
  const head = ['longer by', ...counts.flatMap((count) => [`plants/s, ${count} connections`, 'p50 ms'])]
  const lines = extras.map((extra) => [
    `${extra} ms`,
    ...counts.flatMap((count) => {
      const cell = latencies.find(({ extraMs, connections }) => extraMs === extra && connections === count)
      return [
        formatNumber(cell?.plantsPerSecond ?? Number.NaN, 0),
        formatNumber(cell?.p50Ms ?? Number.NaN, 1)
      ]
    })
  ])
  return formatTable([head, ...lines])
}
