/** The comparison as tables: what a plant costs, how many there are, how long one takes; docs/performance.json has more. */
import type { ContenderName } from './contenders.ts'
import type { Figures } from './measure.ts'
import { formatNumber, formatTable } from './report.ts'

/** The figures of one contender at one number of connections. */
export interface Row extends Figures {
  connections: number
  contender: ContenderName
}

const servers: ContenderName[] = ['service', 'as documented', 'one insert a request', 'bare Fastify']

/** A table: a figure of some contenders, with its unit and its digits. */
const tables: [title: string, figure: keyof Figures, digits: number, contenders: ContenderName[]][] = [
  ['CPU µs/plant', 'serverCpuUs', 0, servers],
  ['plants/s', 'plantsPerSecond', 0, [...servers, 'pgbench']],
  ['p99 ms', 'p99Ms', 0, servers]
]

/** Formats the figures, a line for each number of connections. */
export function formatComparison(rows: Row[]): string {
  const counts = [...new Set(rows.map((row) => row.connections))]
  const format = ([title, figure, digits, contenders]: (typeof tables)[number]) => {
    const lines = counts.map((connections) => {
      const of = (name: ContenderName) =>
        rows.find((row) => row.connections === connections && row.contender === name)
      const cells = contenders.map((name) => formatNumber(of(name)?.[figure] ?? Number.NaN, digits))
      return [String(connections), ...cells]
    })
    return formatTable([[`${title}, by connections`, ...contenders], ...lines])
  }
  return tables.map(format).join('\n\n')
}
