/** `npm run bench:scaling`: what the measured figures mean for more than one process, computed from performance.json. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Row } from './comparison.ts'
import type { Figures } from './measure.ts'
import { docs, formatNumber, formatTable, publish } from './report.ts'
import { defaultLimits as limits } from './simulation/calibrate.ts'
import { commitOf } from './simulation/database.ts'

/** What the benchmarks have written; bytes of one plant. */
interface Measured {
  bench: { machine: string; rows: Row[] }
  growth: { connections: number; rows: (Figures & { rows: number })[] }
  simulation: {
    bytes: { log: number; table: number; request: number; answer: number }
    commits: { rows: number; serverMs: number; databaseMs: number }[]
  }
}

/** A core is planned to be busy for this part of the time, as by the autoscaler of deploy/kubernetes/. */
const utilization = 0.6
/** WRITE_LANES, and one for the probes. */
const connectionsOfReplica = limits.lanes + 1
const secondsOfDay = 86_400

const measured: Partial<Measured> = JSON.parse(await readFile(join(docs, 'performance.json'), 'utf8'))
const { bench, growth, simulation } = measured
const largest = growth?.rows.at(-1)
if (!bench || !growth || !largest || !simulation) {
  throw new Error('run npm run bench, npm run bench:growth and npm run bench:simulation before')
}

const tenths = (value: number) => formatNumber(value, 1)
const whole = (value: number) => formatNumber(value, 0)

const costs = [
  ...bench.rows
    .filter(({ contender }) => contender === 'service')
    .map((row) => ({ ...row, benchmark: 'bench', rows: 0 })),
  ...growth.rows.map((row) => ({ ...row, benchmark: 'growth', connections: growth.connections }))
].map(({ benchmark, connections, rows, plantsPerSecond, serverCpuUs, databaseCpuUs }) => [
  benchmark,
  whole(connections),
  whole(rows),
  whole(plantsPerSecond),
  tenths(serverCpuUs),
  tenths(databaseCpuUs),
  tenths(serverCpuUs / databaseCpuUs)
])

const { bytes } = simulation
const larger = Math.max(bytes.request, bytes.answer)
const gigabit = (bytes: number) => `${whole(1e9 / 8 / bytes)} plants/s`
const sizes = [
  ["request and answer, without TCP's and IP's own", `${bytes.request} + ${bytes.answer}`, gigabit(larger)],
  ["PostgreSQL's log, without whole pages, to each standby", whole(bytes.log), gigabit(bytes.log)],
  ['table and index', whole(bytes.table), '']
]

const steps = [1, 10, 100, 1000].map((factor) => {
  const rate = largest.plantsPerSecond * factor
  const replicas = Math.ceil((rate * largest.serverCpuUs) / 1e6 / utilization)
  return [
    `× ${whole(factor)}`,
    whole(rate),
    whole(replicas),
    tenths((rate * largest.databaseCpuUs) / 1e6 / utilization),
    whole(replicas * connectionsOfReplica),
    whole((rate * bytes.log) / 1e6),
    formatNumber((rate * larger * 8) / 1e9, 2),
    formatNumber((rate * bytes.table * secondsOfDay) / 1e12, 2)
  ]
})

const commits = simulation.commits.map((commit) => ({ ...commit, waitsMs: [] }))
const batchMs = (shards: number) => shards * commitOf(commits, limits.batchRows / shards).databaseMs
const shards = [1, 2, 4, 8, 32].map((count) => [
  whole(count),
  whole(limits.batchRows / count),
  formatNumber(batchMs(count), 2),
  formatNumber(batchMs(count) / batchMs(1), 2)
])

await publish('scaling', {
  text: [
    `${bench.machine}; from \`npm run bench\` and \`npm run bench:growth\` (compare lines of the same one), bytes and shards from \`npm run bench:simulation\`.`,
    formatTable([
      [
        'benchmark',
        'connections',
        'rows before',
        'plants/s',
        'service CPU µs/plant',
        'PostgreSQL CPU µs/plant',
        'replicas that use a core of PostgreSQL'
      ],
      ...costs
    ]),
    formatTable([['of one plant', 'bytes', '1 Gbit/s in one direction is enough for'], ...sizes]),
    `From the last line of the first table, with cores busy for ${whole(utilization * 100)} % of the time:`,
    formatTable([
      [
        'rate',
        'plants/s',
        'replicas of one core',
        'cores of PostgreSQL',
        'connections',
        'log MB/s, without whole pages',
        'HTTP Gbit/s in one direction',
        'table TB/day'
      ],
      ...steps
    ]),
    `What PostgreSQL's part of a full batch of ${limits.batchRows} rows costs when it is divided, before anything of a two-phase commit:`,
    formatTable([['shards', 'rows each', 'PostgreSQL CPU ms', '÷ undivided'], ...shards])
  ].join('\n\n'),
  data: { costs, sizes, steps, shards },
  errors: 0,
  isQuick: false
})
