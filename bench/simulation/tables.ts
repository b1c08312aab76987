/** The simulation's results as tables. */
import { median } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import { aim, type Comparison, judge, quartiles } from './comparison.ts'
import type { Commit } from './database.ts'
import type { Prediction } from './model.ts'

const percent = (part: number) => `${formatNumber(part * 100, 0)} %`

/** Formats measured and simulated figures beside each other, and by how much they differ. */
export function formatComparison(comparisons: Comparison[]): string {
  const head = [
    'connections',
    'plants/s measured',
    'simulated',
    'off in a round',
    'p50 ms measured',
    'simulated',
    'off in a round',
    'rows a batch measured',
    'simulated'
  ]
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

/** Says how many of the figures are within the aim, and how far the worst is off. */
export function formatAim(comparisons: Comparison[]): string {
  const { met, of, worst } = judge(comparisons)
  return `The aim, ${percent(aim)}, is met by ${met} of ${of} figures; the worst is off by ${formatNumber(worst * 100, 1)} %.`
}

/** Formats the rounds' differences, and beside them those of a forecast that is the earlier load's rate. */
export function formatSpread(comparisons: Comparison[]): string {
  const head = ['connections', 'plants/s', 'p50', "plants/s, were they the earlier load's"]
  const describe = (offs: number[]) =>
    `${percent(median(offs))}, ${quartiles(offs).map(percent).join(' to ')}`
  const lines = comparisons.map(({ connections, offs }) => [
    String(connections),
    describe(offs.plantsPerSecond),
    describe(offs.p50Ms),
    describe(offs.earlierPlantsPerSecond)
  ])
  return formatTable([head, ...lines])
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

/** A prediction for one line and one column of a table. */
export interface Cell {
  line: string
  column: string
  prediction: Prediction
}

/** Formats predictions: a line for each of the cells' lines, three columns for each of their columns. */
export function formatPredictions(what: string, cells: Cell[]): string {
  const columns = [...new Set(cells.map(({ column }) => column))]
  const lines = [...new Set(cells.map(({ line }) => line))]
  const head = [what, ...columns.flatMap((column) => [`plants/s, ${column}`, 'p50 ms', 'rows a batch'])]
  const body = lines.map((line) => [
    line,
    ...columns.flatMap((column) => {
      const { prediction } = cells.find((cell) => cell.line === line && cell.column === column) as Cell
      return [
        formatNumber(prediction.plantsPerSecond, 0),
        formatNumber(prediction.p50Ms, 1),
        formatNumber(prediction.rowsPerBatch, 0)
      ]
    })
  ])
  return formatTable([head, ...body])
}
