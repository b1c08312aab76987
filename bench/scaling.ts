/** `npm run bench:scaling`: what the measured figures mean for more than one process, computed from performance.json. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Row } from './comparison.ts'
import { formatNumber, formatTable, publish } from './report.ts'
import { defaultLimits } from './simulation/calibrate.ts'

/** What the benchmarks have written; bytes a plant. */
interface Measured {
  bench: { machine: string; rows: Row[] }
  simulation: { bytes: { log: number; table: number; request: number; answer: number } }
}

/** A core is planned to be busy for this part of the time, as by the autoscaler of deploy/kubernetes/. */
const utilization = 0.6
/** WRITE_LANES, and one for the probes. */
const connectionsOfReplica = defaultLimits('postgres://localhost/plants').lanes + 1
const secondsOfDay = 86_400

const file = join(import.meta.dirname, '../docs/performance.json')
const { bench, simulation } = JSON.parse(await readFile(file, 'utf8')) as Partial<Measured>
if (!bench || !simulation) throw new Error('run npm run bench and npm run bench:simulation before')
const service = bench.rows.filter(({ contender }) => contender === 'service')
const busiest = service.reduce((most, row) => (row.connections > most.connections ? row : most))
const { plantsPerSecond, serverCpuUs, databaseCpuUs } = busiest
const { bytes } = simulation
const replicas = (rate: number) => Math.ceil((rate * serverCpuUs) / 1e6 / utilization)

const costs = formatTable([
  ['of one plant', 'measured', 'one core, or 1 Gbit/s, is enough for'],
  [
    'CPU of the service',
    `${formatNumber(serverCpuUs, 1)} µs`,
    `${formatNumber(1e6 / serverCpuUs, 0)} plants/s`
  ],
  [
    'CPU of PostgreSQL',
    `${formatNumber(databaseCpuUs, 1)} µs`,
    `${formatNumber(1e6 / databaseCpuUs, 0)} plants/s`
  ],
  [
    'request and answer',
    `${bytes.request} + ${bytes.answer} bytes`,
    `${formatNumber(1e9 / 8 / Math.max(bytes.request, bytes.answer), 0)} plants/s`
  ],
  [
    "PostgreSQL's log, without whole pages",
    `${formatNumber(bytes.log, 0)} bytes`,
    `${formatNumber(1e9 / 8 / bytes.log, 0)} plants/s`
  ],
  ['table and index', `${formatNumber(bytes.table, 0)} bytes`, '']
])

const steps = [1, 10, 100, 1000].map((factor) => {
  const rate = plantsPerSecond * factor
  return [
    `× ${formatNumber(factor, 0)}`,
    formatNumber(rate, 0),
    formatNumber(replicas(rate), 0),
    formatNumber((rate * databaseCpuUs) / 1e6 / utilization, 1),
    formatNumber(replicas(rate) * connectionsOfReplica, 0),
    formatNumber((rate * bytes.log) / 1e6, 0),
    formatNumber((rate * Math.max(bytes.request, bytes.answer) * 8) / 1e9, 2),
    formatNumber((rate * bytes.table * secondsOfDay) / 1e12, 2)
  ]
})
const head = [
  "today's rate",
  'plants/s',
  'replicas of one core',
  'cores of PostgreSQL',
  'connections',
  'log MB/s, without whole pages',
  'network Gbit/s',
  'table TB/day'
]

await publish('scaling', {
  text: [
    `From ${bench.machine}: the service with ${busiest.connections} connections, ${formatNumber(plantsPerSecond, 0)} plants/s from one process.`,
    costs,
    `**${formatNumber(serverCpuUs / databaseCpuUs, 1)} replicas saturate one core of PostgreSQL**, as long as each has enough connections to fill its batches. With cores busy for ${formatNumber(utilization * 100, 0)} % of the time:`,
    formatTable([head, ...steps])
  ].join('\n\n'),
  data: { plantsPerSecond, replicasOfDatabaseCore: serverCpuUs / databaseCpuUs },
  errors: 0,
  isQuick: false
})
