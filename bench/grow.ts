/**
 * `npm run bench -- grow`: what a plant costs when the table has millions of rows, with ids that grow and with random ids,
 * with PostgreSQL's defaults and with the stack's settings, in turns. Prints the tables of docs/capacity.md. Options:
 * --rows 0,1e6,1e7,5e7, --ids growing,random, --seconds, --starts, --connections; --docker gives PostgreSQL the limits of the
 * stack; each --also name=value,name=value tries the stack's settings with other values.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { query } from '../test/support/postgres/query.ts'
import { withDirectory } from './directory.ts'
import {
  type Column,
  cpuUs,
  describeMachine,
  describeStarts,
  formatTable,
  inTurns,
  loadByWrk,
  medianOf,
  noiseOf,
  say,
  settleMs,
  summarizeAll,
  throwIfVoid,
  treeCpuUs
} from './measure.ts'
import {
  type Cluster,
  containerCluster,
  embeddedCluster,
  type Running,
  readStack,
  type Settings
} from './postgres.ts'
import { ownProgram, startServer } from './server.ts'
import { sizeFor } from './sizing.ts'
import {
  countAdded,
  type Filled,
  fillTable,
  firstId,
  type Ids,
  measureVacuum,
  resetTable
} from './table.ts'

/** The load before a measurement: the code gets compiled, and pages of the table come into memory. */
const warmUpSeconds = 5
/** Idle sessions report their statistics after 10 s (PGSTAT_IDLE_INTERVAL in PostgreSQL's pgstat.c). */
const reportMs = 10_500
/** What a row needs at most: table, index, a sort of the index, and the WAL of both. */
const bytesPerRow = 250
/** What filling costs on a slow machine, and what each start does besides its load. */
const [secondsPerMillionRows, secondsPerStart] = [8, 50]

/** max_wal_size while a table is filled, and how much WAL there can be then, as that is no hard limit. */
const [fillWal, mostWalBytes] = ['8GB', 12 * 2 ** 30]

/** What one start has shown. */
interface Figures {
  readonly plantsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly serviceUs: number
  readonly postgresUs: number
  readonly walBytes: number
  readonly fullPages: number
  readonly checkpoints: number
  /** How long PostgreSQL needs to start when it has crashed at the end of the load. */
  readonly recoverySeconds: number
  readonly errors: number
}

/** The examples of docs/capacity.md, each held for a year. */
const exampleRates = [1_000, 20_000, 200_000, 2_000_000]
const secondsOfYear = 365 * 86_400

const shown: Column<Figures>[] = [
  ['plantsPerSecond', 'plants/s', 0],
  ['p50Ms', 'p50 ms', 1],
  ['p99Ms', 'p99 ms', 1],
  ['serviceUs', 'service µs', 1],
  ['postgresUs', 'PostgreSQL µs', 1],
  ['walBytes', 'WAL bytes', 0],
  ['fullPages', 'full pages', 3],
  ['checkpoints', 'checkpoints', 0],
  ['recoverySeconds', 'recovery s', 1]
]

const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    rows: { type: 'string', default: '0,1e6,1e7,5e7' },
    ids: { type: 'string', default: 'growing,random' },
    seconds: { type: 'string', default: '60' },
    starts: { type: 'string', default: '2' },
    connections: { type: 'string', default: '64' },
    docker: { type: 'boolean', default: false },
    also: { type: 'string', multiple: true, default: [] }
  }
})
const [seconds, starts, connections] = [values.seconds, values.starts, values.connections].map(
  Number
) as [number, number, number]
const sizes = values.rows.split(',').map(Number)
const kinds = values.ids.split(',') as Ids[]
if (
  ![seconds, starts, connections].every((n) => n > 0) ||
  !sizes.every((n) => Number.isInteger(n) && n >= 0 && n <= 60e6) ||
  !kinds.every((ids) => ['growing', 'random'].includes(ids)) ||
  !values.also.every((text) => /^\w+=[^,=]+(,\w+=[^,=]+)*$/.test(text))
)
  throw new Error(
    'usage: npm run bench -- grow [--rows 0,1e6] [--ids growing,random] [--seconds N] [--starts N] [--connections N] [--docker] [--also NAME=VALUE,NAME=VALUE]'
  )

await withDirectory(async (directory, defer) => {
  const cluster = values.docker ? await containerCluster(defer) : embeddedCluster(directory, defer)
  const variants = chooseVariants()
  await announce(cluster)
  // A setting that PostgreSQL refuses should fail here, and not when a table is filled.
  for (const [, settings] of variants) {
    const server = await cluster.start(settings)
    await server.stop('SIGINT')
  }
  const measured: Line[] = []
  for (const rows of sizes)
    for (const ids of kinds) {
      const table = await prepare(cluster, rows, ids)
      const lines = variants.map(([variant, settings]) => ({
        table,
        variant,
        settings,
        rounds: [] as Figures[]
      }))
      for (const [line, start] of inTurns(lines, starts)) {
        const figures = await measure(cluster, line.settings, table, directory)
        line.rounds.push(figures)
        const rate = `${Math.round(figures.plantsPerSecond)} plants/s, ${figures.postgresUs.toFixed(1)} µs of PostgreSQL`
        say(`${rows} rows, ${ids} ids, ${line.variant}, start ${start} of ${starts}: ${rate}`)
      }
      measured.push(...lines)
      await drop(cluster)
    }
  await report(cluster, variants, measured)
})

type Variant = [name: string, settings: Settings]

/** Returns PostgreSQL's defaults, the stack's settings, and these with each change that was asked for. */
function chooseVariants(): Variant[] {
  const { settings } = readStack()
  const changes = values.also.map((text) => text.split(',').map((pair) => pair.split('=')))
  return [
    ['defaults', {}],
    ['stack', settings],
    ...changes.map((pairs): Variant => {
      const name = pairs.map((pair) => pair.join('=')).join(', ')
      return [`stack, ${name}`, { ...settings, ...Object.fromEntries(pairs) }]
    })
  ]
}

/** Says how much time and disk it will take; throws if the disk has less. */
async function announce(cluster: Cluster): Promise<void> {
  const rows = sizes.reduce((sum, size) => sum + size, 0) * kinds.length
  const perStart = seconds + warmUpSeconds + secondsPerStart
  const total =
    (rows / 1e6) * secondsPerMillionRows +
    sizes.length * kinds.length * (2 + values.also.length) * starts * perStart
  const bytes = Math.max(...sizes) * bytesPerRow + mostWalBytes
  const free = await cluster.freeBytes()
  const gib = (count: number) => `${Math.ceil(count / 2 ** 30)} GiB`
  say(
    `about ${Math.ceil(total / 60)} minutes and up to ${gib(bytes)} of disk${free ? `; ${gib(free)} are free` : ''}`
  )
  if (free !== undefined && free < bytes)
    throw new Error('the disk has too little room: take fewer --rows')
}

/** Fills a database of its own, with as few checkpoints as there is room for. */
async function prepare(cluster: Cluster, rows: number, ids: Ids): Promise<Filled> {
  const server = await cluster.start({ max_wal_size: fillWal, maintenance_work_mem: '256MB' })
  await query(server.url('postgres'), 'create database grow')
  const began = performance.now()
  const table = await fillTable(server.url('grow'), rows, ids)
  say(`${rows} rows with ${ids} ids, made in ${Math.round((performance.now() - began) / 1e3)} s`)
  await server.stop('SIGINT')
  return table
}

async function drop(cluster: Cluster): Promise<void> {
  const server = await cluster.start({})
  await query(server.url('postgres'), 'drop database grow with (force)')
  await server.stop('SIGINT')
}

/** Loads a table once, from a checkpoint on, with a PostgreSQL of these settings that is then made to crash. */
async function measure(
  cluster: Cluster,
  settings: Settings,
  table: Filled,
  directory: string
): Promise<Figures> {
  const postgres = await cluster.start(settings)
  const databaseUrl = postgres.url('grow')
  const server = await startServer(ownProgram(), databaseUrl, directory)
  let figures: Omit<Figures, 'recoverySeconds'>
  try {
    await loadByWrk(server.url, connections, warmUpSeconds, await firstId(databaseUrl, table))
    await sleep(settleMs)
    await server.clearLog()
    await resetTable(databaseUrl, table)
    await sleep(reportMs)
    figures = await measureLoad(postgres, server, table)
  } finally {
    await server.stop()
  }
  await postgres.stop('SIGQUIT')
  const began = performance.now()
  const recovered = await cluster.start(settings)
  const recoverySeconds = (performance.now() - began) / 1e3
  await recovered.stop('SIGINT')
  return { ...figures, recoverySeconds }
}

async function measureLoad(postgres: Running, server: { url: string; pid: number }, table: Filled) {
  const databaseUrl = postgres.url('grow')
  const id = await firstId(databaseUrl, table)
  const [counters, serviceUs, postgresUs] = [
    await readCounters(databaseUrl),
    cpuUs(server.pid),
    treeCpuUs(postgres.pid)
  ]
  const { plants, errors, ...seen } = await loadByWrk(server.url, connections, seconds, id)
  const used = {
    serviceUs: cpuUs(server.pid) - serviceUs,
    postgresUs: treeCpuUs(postgres.pid) - postgresUs
  }
  await sleep(reportMs)
  const after = await readCounters(databaseUrl)
  const added = await countAdded(databaseUrl, table)
  const room = table.rows === 0 ? 0 : 200
  return {
    plantsPerSecond: plants / seen.seconds,
    p50Ms: seen.p50Ms,
    p99Ms: seen.p99Ms,
    serviceUs: used.serviceUs / plants,
    postgresUs: used.postgresUs / plants,
    walBytes: (after.walBytes - counters.walBytes) / plants,
    fullPages: (after.fullPages - counters.fullPages) / plants,
    checkpoints: after.checkpoints - counters.checkpoints,
    errors: errors + Math.max(0, plants - added - room)
  }
}

async function readCounters(databaseUrl: string) {
  const [{ version }] = await query(
    databaseUrl,
    `select current_setting('server_version_num')::int as version`
  )
  const checkpoints =
    version >= 170_000
      ? 'select num_timed + num_requested from pg_stat_checkpointer'
      : 'select checkpoints_timed + checkpoints_req from pg_stat_bgwriter'
  const [counters] = await query(
    databaseUrl,
    `select (pg_current_wal_insert_lsn() - '0/0')::float8 as "walBytes", wal_fpi::float8 as "fullPages",
       (${checkpoints})::float8 as checkpoints from pg_stat_wal`
  )
  return counters as { walBytes: number; fullPages: number; checkpoints: number }
}

/** What the starts of one table with one variant have shown. */
interface Line {
  readonly table: Filled
  readonly variant: string
  readonly rounds: Figures[]
}

/** A function, so that it is there when the first lines of the file run. */
function all(rounds: Figures[], figure: keyof Figures): number[] {
  return rounds.map((round) => round[figure])
}

/** Prints the tables and the noise; throws if a request failed. */
async function report(cluster: Cluster, variants: Variant[], lines: Line[]): Promise<void> {
  const server = await cluster.start(variants[1]?.[1] ?? {})
  const machine = await describeMachine(server.url('postgres'))
  await query(server.url('postgres'), 'create database vacuumed')
  await fillTable(server.url('vacuumed'), 0, 'growing')
  const { before, after } = await measureVacuum(server.url('vacuumed'))
  await server.stop('SIGINT')
  const noise = (figure: keyof Figures) => noiseOf(lines.map(({ rounds }) => all(rounds, figure)))
  const stack = Object.entries(variants[1]?.[1] ?? {}).map(([name, value]) => `${name}=${value}`)
  say(`
${machine}; ${cluster.place}. ${describeStarts(starts)}, ${seconds} s from a checkpoint on, ${connections} connections.
Stack: ${stack.join(', ')}.

${formatCosts(lines)}

${formatSpace(lines)}

${formatNeeds(lines)}

The first vacuum of new rows writes ${before.toFixed(1)} bytes of WAL a row before the next checkpoint, ${after.toFixed(1)} after it.
Starts differ from their median by at most ${noise('plantsPerSecond')} in plants/s, ${noise('serviceUs')} in the CPU of the service and ${noise('postgresUs')} in that of PostgreSQL.`)
  throwIfVoid(lines.flatMap(({ rounds }) => rounds))
}

function formatCosts(lines: Line[]): string {
  return formatTable([
    ['rows', 'ids', 'settings', ...shown.map(([, title]) => title)],
    ...lines.map(({ table, variant, rounds }) => [
      table.rows.toLocaleString('en-US'),
      table.ids,
      variant,
      ...summarizeAll(rounds, shown)
    ])
  ])
}

/** A line for each table: what it takes of the disk, and what the stack's settings gain. */
function formatSpace(lines: Line[]): string {
  const rateOf = (table: Filled, variant: string) => {
    const line = lines.find((other) => other.table === table && other.variant === variant)
    return medianOf(all(line?.rounds ?? [], 'plantsPerSecond'))
  }
  const tables = [...new Set(lines.map(({ table }) => table))]
  return formatTable([
    ['rows', 'ids', 'table bytes a row', 'index bytes a row', 'plants/s of stack / defaults'],
    ...tables.map((table) => {
      const size = (bytes: number) => (table.rows === 0 ? 'n/a' : (bytes / table.rows).toFixed(1))
      const ratio = (rateOf(table, 'stack') / rateOf(table, 'defaults')).toFixed(2)
      return [
        table.rows.toLocaleString('en-US'),
        table.ids,
        size(table.tableBytes),
        size(table.indexBytes),
        ratio
      ]
    })
  ])
}

/** The formula's examples, by the costs that the stack has with the largest table of each kind of ids. */
function formatNeeds(lines: Line[]): string {
  const rows = kinds.flatMap((ids) => {
    const line = lines.findLast(({ table, variant }) => table.ids === ids && variant === 'stack')
    if (!line || line.table.rows === 0) return []
    const { table, rounds } = line
    // As the tables above show them, so that a reader who computes an example gets the same.
    const cost = (figure: keyof Figures) => {
      const [, , digits = 0] = shown.find(([name]) => name === figure) ?? []
      return Number(medianOf(all(rounds, figure)).toFixed(digits))
    }
    const bytesOfRow = (bytes: number) => Number((bytes / table.rows).toFixed(1))
    const costs = {
      ids,
      serviceUs: cost('serviceUs'),
      postgresUs: cost('postgresUs'),
      walBytes: cost('walBytes'),
      fullPages: cost('fullPages'),
      tableBytes: bytesOfRow(table.tableBytes),
      indexBytes: bytesOfRow(table.indexBytes)
    }
    return exampleRates.map((rate) => {
      const demand = { peak: rate, plants: rate * secondsOfYear }
      const { replicas, postgresCores, sessions, wal, disk } = sizeFor(demand, costs)
      const counts = [replicas, postgresCores, sessions].map((count) =>
        count.toLocaleString('en-US')
      )
      return [rate.toLocaleString('en-US'), ids, ...counts, wal.toFixed(1), disk.toFixed(1)]
    })
  })
  const titles = [
    'creates/s',
    'ids',
    'replicas',
    'PostgreSQL cores',
    'sessions',
    'WAL MB/s',
    'TB a year'
  ]
  return formatTable([titles, ...rows])
}
