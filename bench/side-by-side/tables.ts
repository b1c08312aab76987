/** The comparison as a table. */
import type { Figures } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import type { Fact } from './facts.ts'
import type { Installed } from './install.ts'

/** All that is known of one peer. */
export interface Result {
  title: string
  installed: Installed
  /** From the start of the process to the first 200, in ms. */
  startUpMs: number
  /** Its figures at each number of connections. */
  load: (Figures & { connections: number })[]
  facts: Fact[]
}

/** Formats one line for each peer: under the most connections, its footprint, and how many facts are good. */
export function formatResults(results: Result[]): string {
  const connections = Math.max(...results.flatMap(({ load }) => load.map((figures) => figures.connections)))
  const head = [
    `${connections} connections`,
    'plants/s',
    'p99 ms',
    'CPU µs/plant',
    'PostgreSQL µs/plant',
    'peak MiB',
    'start ms',
    'keeps the interface',
    'creates what is valid'
  ]
  const lines = results.map(({ title, load, startUpMs, facts }) => {
    const figures = load.find((figures) => figures.connections === connections)
    const format = (figure: keyof Figures, digits: number) =>
      formatNumber(figures?.[figure] ?? Number.NaN, digits)
    return [
      title,
      format('plantsPerSecond', 0),
      format('p99Ms', 0),
      format('serverCpuUs', 0),
      format('databaseCpuUs', 0),
      format('peakMiB', 0),
      formatNumber(startUpMs, 0),
      count(facts, ({ keepsInterface }) => keepsInterface),
      count(
        facts.filter(({ isValid }) => isValid),
        ({ isCreated }) => isCreated
      )
    ]
  })
  return formatTable([head, ...lines])
}

function count(facts: Fact[], is: (fact: Fact) => boolean): string {
  return `${facts.filter(is).length}/${facts.length}`
}
