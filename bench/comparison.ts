/** The comparison as tables: what was measured, and the service's ratios to the others. */
import type { Figures } from './measure.ts'
import { formatNumber, formatTable } from './report.ts'

/** The figures of one contender at one number of connections. */
export interface Row extends Figures {
  connections: number
  contender: string
}

/** Formats all figures, one line each. */
export function formatFigures(rows: Row[]): string {
  const head = [
    'contender',
    'connections',
    'plants/s',
    'p50 ms',
    'p99 ms',
    'server CPU µs/plant',
    'PostgreSQL CPU µs/plant',
    'peak MiB',
    'errors'
  ]
  const lines = rows.map((row) => [
    row.contender,
    row.contender === 'pgbench' ? '10 clients' : String(row.connections),
    formatNumber(row.plantsPerSecond, 0),
    formatNumber(row.p50Ms, 2),
    formatNumber(row.p99Ms, 2),
    formatNumber(row.serverCpuUs, 1),
    formatNumber(row.databaseCpuUs, 1),
    formatNumber(row.peakMiB, 0),
    String(row.errors)
  ])
  return formatTable([head, ...lines])
}

/** Formats the service's figures divided by those of the others, one line for each number of connections. */
export function formatRatios(rows: Row[]): string {
  const ratio = (connections: number, figure: keyof Figures, contender: string) => {
    const of = (name: string) =>
      rows.find((row) => row.connections === connections && row.contender === name)?.[figure] ?? Number.NaN
    return formatNumber(of('service') / of(contender), 2)
  }
  const head = [
    'connections',
    'plants/s ÷ plain',
    'plants/s ÷ ceiling',
    'plants/s ÷ pgbench',
    'p50 ÷ plain',
    'p99 ÷ plain'
  ]
  const lines = [...new Set(rows.map((row) => row.connections))].map((connections) => [
    String(connections),
    ratio(connections, 'plantsPerSecond', 'plain'),
    ratio(connections, 'plantsPerSecond', 'ceiling'),
    ratio(connections, 'plantsPerSecond', 'pgbench'),
    ratio(connections, 'p50Ms', 'plain'),
    ratio(connections, 'p99Ms', 'plain')
  ])
  return formatTable([head, ...lines])
}
