/** What a client feels beside others, as a table; docs/performance.json has it, too. */
import type { OpenResult } from './load/open-loop.ts'
import { formatNumber, formatTable } from './report.ts'

/** What a client's creates met beside a neighbour. */
export interface Row extends OpenResult {
  neighbour: string
}

/** What docs/performance.json has. */
export interface Neighbours {
  machine: string
  seconds: number
  /** Creates a second. */
  rate: number
  rows: Row[]
}

/** Formats the table, a line for each neighbour. */
export function formatNeighbours({ machine, seconds, rate, rows }: Neighbours): string {
  const number = (value: number) => formatNumber(value, 0)
  const lines = rows.map(({ neighbour, p50Ms, p99Ms, maxMs, failed }) => [
    neighbour,
    ...[p50Ms, p99Ms, maxMs, failed].map(number)
  ])
  const head = `${machine}. ${rate} creates/s, evenly spread, for ${seconds} s each.`
  return `${head}\n\n${formatTable([['beside', 'p50 ms', 'p99 ms', 'longest ms', 'failed'], ...lines])}`
}
