/** The comparison as tables: what a plant costs, how many there are, how long one takes; docs/performance.json has more. */
import type { Figures } from './measure.ts'
import { formatNumber, formatTable } from './report.ts'

/** The servers that are compared, in the order of their turns. */
export const servers = ['service', 'as documented', 'one insert a request', 'bare Fastify'] as const

/** The figures of a server, or of pgbench, at one number of connections. */
export interface Row extends Figures {
  connections: number
  name: (typeof servers)[number] | 'pgbench'
}

/** A comparison as docs/performance.json has it. */
export interface Comparison {
  machine: string
  starts: number
  seconds: number
  rows: Row[]
}

/** A table: a figure by the names of rows, with its unit and its digits. */
const tables: [title: string, figure: keyof Figures, digits: number, names: readonly Row['name'][]][] = [
  ['CPU µs/plant', 'serverCpuUs', 0, servers],
  ['plants/s', 'plantsPerSecond', 0, [...servers, 'pgbench']],
  ['p99 ms', 'p99Ms', 0, servers]
]

/** Formats a comparison, a line for each number of connections. */
export function formatComparison({ machine, starts, seconds, rows }: Comparison): string {
  const counts = [...new Set(rows.map((row) => row.connections))]
  const format = ([title, figure, digits, names]: (typeof tables)[number]) => {
    const lines = counts.map((connections) => {
      const of = (name: Row['name']) =>
        rows.find((row) => row.connections === connections && row.name === name)
      return [
        String(connections),
        ...names.map((name) => formatNumber(of(name)?.[figure] ?? Number.NaN, digits))
      ]
    })
    return formatTable([[`${title}, by connections`, ...names], ...lines])
  }
  const head = `${machine}. Medians of ${starts} starts, ${seconds} s each.`
  return [head, ...tables.map(format)].join('\n\n')
}
