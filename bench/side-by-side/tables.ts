/** The comparison as a table. */
import type { Figures } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import type { Fact } from './facts.ts'

/** All that is known of one peer. */
export interface Result {
  title: string
  /** From the start of the process to the first 200, in ms. */
  startUpMs: number
  /** Its figures at each number of connections. */
  load: (Figures & { connections: number })[]
  facts: Fact[]
}

/** A comparison of the peers as docs/performance.json has it. */
export interface Peers {
  /** Where and on what it was measured. */
  machine: string
  starts: number
  seconds: number
  results: Result[]
}

/** How a page shows the charts. */
const chart = [
  '<picture>',
  '  <source media="(prefers-color-scheme: dark)" srcset="peers-dark.svg">',
  '  <img alt="Bars: plants a second, CPU and memory of this service and its peers" src="peers-light.svg">',
  '</picture>'
].join('\n')

/** Formats a comparison: the charts, and a line for each peer. */
export function formatPeers({ machine, starts, seconds, results }: Peers): string {
  const head = `${machine}. Medians of ${starts} starts, ${seconds} s each; of the memory the most.`
  return [chart, head, formatResults(results)].join('\n\n')
}

/** Formats one line for each peer: under the most connections, its footprint, and how many facts are good. */
function formatResults(results: Result[]): string {
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
