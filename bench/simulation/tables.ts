/** The simulation's results as tables. */
import { median } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import type { Commit, Prediction } from './model.ts'

type Off = Omit<Prediction, 'rowsPerBatch'>

/** What was measured and what the model says, at one number of connections. */
export interface Comparison {
  connections: number
  measured: Prediction
  simulated: Prediction
  /** How far the model is off, as a part of what was measured. */
  off: Off
}

/**
 * Makes the comparison from what was measured and simulated in each round. The differences are taken within a round,
 * where the machine was the same, and their medians given, as of all figures.
 */
export function compare(
  connections: number,
  rounds: { measured: Prediction; simulated: Prediction }[]
): Comparison {
  const middle = (kind: 'measured' | 'simulated', figure: keyof Prediction) =>
    median(rounds.map((round) => round[kind][figure]))
  const figures = (kind: 'measured' | 'simulated'): Prediction => ({
    plantsPerSecond: middle(kind, 'plantsPerSecond'),
    p50Ms: middle(kind, 'p50Ms'),
    rowsPerBatch: middle(kind, 'rowsPerBatch')
  })
  const off = (figure: keyof Off) =>
    median(rounds.map(({ measured, simulated }) => simulated[figure] / measured[figure] - 1))
  return {
    connections,
    measured: figures('measured'),
    simulated: figures('simulated'),
    off: { plantsPerSecond: off('plantsPerSecond'), p50Ms: off('p50Ms') }
  }
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
    'rows a batch measured',
    'simulated'
  ]
  const percent = (part: number) => `${formatNumber(part * 100, 0)} %`
  const lines = comparisons.map(({ connections, measured, simulated, off }) => [
    String(connections),
    formatNumber(measured.plantsPerSecond, 0),
    formatNumber(simulated.plantsPerSecond, 0),
    percent(off.plantsPerSecond),
    formatNumber(measured.p50Ms, 2),
    formatNumber(simulated.p50Ms, 2),
    percent(off.p50Ms),
    formatNumber(measured.rowsPerBatch, 1),
    formatNumber(simulated.rowsPerBatch, 1)
  ])
  return formatTable([head, ...lines])
}

/** How far the model may be off, as a part of what was measured. */
const aim = 0.15

/** Says how many of the figures are within the aim, and how far the worst is off. */
export function formatAim(comparisons: Comparison[]): string {
  const offs = comparisons.flatMap(({ off }) => [Math.abs(off.plantsPerSecond), Math.abs(off.p50Ms)])
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
