/** The comparison as a table: the service beside the others, a line for each number of connections. */
import type { Figures } from './measure.ts'
import { formatNumber, formatTable } from './report.ts'

/** The figures of one contender at one number of connections. */
export interface Row extends Figures {
  connections: number
  contender: string
}

/** A column: one figure of one contender. */
type Column = [head: string, contender: string, figure: keyof Figures, digits: number]

const columns: Column[] = [
  ['plants/s: service', 'service', 'plantsPerSecond', 0],
  ['plain', 'plain', 'plantsPerSecond', 0],
  ['ceiling', 'ceiling', 'plantsPerSecond', 0],
  ['pgbench', 'pgbench', 'plantsPerSecond', 0],
  ['p99 ms: service', 'service', 'p99Ms', 0],
  ['plain', 'plain', 'p99Ms', 0],
  ['CPU µs/plant: service', 'service', 'serverCpuUs', 0],
  ['plain', 'plain', 'serverCpuUs', 0],
  ['PostgreSQL µs/plant: service', 'service', 'databaseCpuUs', 0],
  ['plain', 'plain', 'databaseCpuUs', 0]
]

/** Formats the figures; a head of one word names a contender, and goes with the figure on its left. */
export function formatComparison(rows: Row[]): string {
  const lines = [...new Set(rows.map((row) => row.connections))].map((connections) => {
    const of = (name: string) => rows.find((row) => row.connections === connections && row.contender === name)
    const cells = columns.map(([, name, figure, digits]) =>
      formatNumber(of(name)?.[figure] ?? Number.NaN, digits)
    )
    return [String(connections), ...cells]
  })
  return formatTable([['connections', ...columns.map(([head]) => head)], ...lines])
}
