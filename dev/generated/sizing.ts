/** Tables of docs/running.md and docs/scaling.md: what the benchmarks have measured, and what follows for a rate. */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { createLogger } from '../../src/log.ts'
import { table } from './markdown.ts'
import { buildDefault } from './monitoring.ts'

/** The figures of the service under one load, as the benchmarks write them. */
interface Figures {
  plantsPerSecond: number
  serverCpuUs: number
  databaseCpuUs: number
  peakMiB: number
}

const { bench, growth } = JSON.parse(
  readFileSync(new URL('../../docs/performance.json', import.meta.url), 'utf8')
) as {
  bench: { rows: (Figures & { name: string; connections: number })[] }
  growth: { connections: number; rows: (Figures & { rows: number })[] }
}

const loads = bench.rows.filter(({ name }) => name === 'service')

/** What a plant of the benchmarks takes on disk, table and index, for random ids. */
export const bytesPerPlant = 112

/** What the line of a create takes in a file of Docker's driver json-file. */
export const bytesPerLogLine = 393

/** What it takes in journald's files, with the fields of a service's entry, as systemd 262 writes them. */
const bytesPerJournalEntry = 760

/** How many times smaller gzip makes these files, rounded down; the same test measures it. */
export const logCompression = 8

/** Returns how many bytes of log the stack keeps of a replica at most, before older files are compressed, and on disk. */
export function readLogLimits() {
  const { services } = parse(readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8'))
  const { 'max-size': size, 'max-file': files } = services.api.logging.options
  // Docker's m is a million.
  const each = Number.parseInt(size, 10) * 1e6
  return {
    kept: each * files,
    onDisk: each * (1 + (files - 1) / logCompression),
    rotated: each * (files - 1)
  }
}

/** The load from which rates are computed: small batches, so that there is room. */
const basis = loads.find(({ connections }) => connections === 8) as Figures
const busiest = 0.5
const rates = [1_000, 5_000, 20_000, 50_000]

const count = (value: number) => value.toLocaleString('en-US')
const gigabytes = (bytes: number) => `${count(Math.round(bytes / 1e9))} GB`
const tenths = (value: number) => value.toFixed(1)

/** Returns, for some rates, what the service and PostgreSQL need. */
export async function writeSizing(): Promise<string> {
  const app = await buildDefault(createLogger('silent'))
  const { size } = app.database.state
  await app.close()
  const lines = rates.map((rate) => {
    const replicas = Math.ceil((rate * basis.serverCpuUs) / 1e6 / busiest) + 1
    return [
      count(rate),
      count(replicas),
      `${replicas} GiB`,
      count(replicas * size),
      tenths((rate * basis.databaseCpuUs) / 1e6),
      gigabytes(rate * bytesPerPlant * 86_400),
      gigabytes(rate * bytesPerLogLine * 86_400)
    ]
  })
  const head = [
    'creates/s',
    'replicas',
    'memory',
    'database connections',
    'PostgreSQL cores',
    'disk per day',
    'log per day'
  ]
  const { kept, onDisk } = readLogLimits()
  const journal = Math.ceil((bytesPerJournalEntry * 100 * 86_400 * 1.1) / 1e9)
  return `${table(head, lines)}

- A replica has ${size} connections to PostgreSQL, one more for each further lane, twice that while replicas or
  credentials change.
- A create has ${bytesPerLogLine} bytes of log, as Docker writes it. The stack keeps ${gigabytes(kept)} of each replica, of which older files
  are compressed (${(onDisk / 1e9).toFixed(1)} GB on disk): a day at 100 creates/s, even if one replica takes them all. The log goes with its
  container: [ship it](monitoring.md#logs).
- journald takes ${bytesPerJournalEntry} bytes a create, and keeps 4 GB by default. For such a day, set \`SystemMaxUse=${journal}G\` in journald.conf.`
}

/** Returns, for the loads that were measured, how many replicas keep a core of PostgreSQL busy. */
export function writeReplicas(): string {
  const last = growth.rows.at(-1) as Figures & { rows: number }
  const measured = [
    ...loads.map((load) => ({ ...load, rows: 0 })),
    { ...last, connections: growth.connections }
  ]
  return table(
    ['connections', 'rows in the table', 'creates/s', 'service µs', 'PostgreSQL µs', 'replicas per core'],
    measured.map(({ connections, rows, plantsPerSecond, serverCpuUs, databaseCpuUs }) => [
      count(connections),
      count(rows),
      count(Math.round(plantsPerSecond)),
      count(Math.round(serverCpuUs)),
      count(Math.round(databaseCpuUs)),
      tenths(serverCpuUs / databaseCpuUs)
    ])
  )
}
