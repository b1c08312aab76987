/**
 * `npm run bench -- citus`: the CPU that a plant costs on one PostgreSQL, and on a table that Citus spreads over workers. There
 * are as many replicas as workers, with their sessions at the coordinator or each at another worker; one PostgreSQL is loaded
 * by as many. All nodes share this machine, so the CPU counts and not the rate. Prints the table of docs/capacity.md. Options:
 * --workers 1,2,4, --shards 1,2 (for each worker), --seconds, --starts, --connections. CITUS_IMAGE names the image; by default
 * the one of deploy/citus.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { execute } from '../test/support/execute.ts'
import { freePort } from '../test/support/postgres/embedded-postgres.ts'
import { query } from '../test/support/postgres/query.ts'
import { type Defer, withDirectory } from './directory.ts'
import {
  type Column,
  cpuUs,
  describeMachine,
  describeStarts,
  formatTable,
  inTurns,
  loadByWrk,
  noiseOf,
  say,
  settleMs,
  summarizeAll,
  throwIfVoid,
  treeCpuUs
} from './measure.ts'
import { ready } from './postgres.ts'
import { migrate, ownProgram, startServer } from './server.ts'

const warmUpSeconds = 5
const mostWarmUps = 12
/** What each start does besides its load. */
const secondsPerStart = 60
/** All nodes share a machine: a statement that is cancelled would cost its sessions' connections to the shards. */
const patience = { WRITE_DEADLINE_MS: '120000' }

/** A node: its name among the others, the URL of its database, and its first process. */
interface Node {
  readonly name: string
  readonly url: string
  readonly pid: number
}

/** Workers, the shards of each, how many replicas there are, and where they have their sessions. */
interface Layout {
  readonly replicas: number
  readonly workers: number
  readonly shards: number
  readonly sessions: 'coordinator' | 'workers'
}

/** µs of CPU for each plant, and plants/s. */
interface Figures {
  readonly serviceUs: number
  readonly coordinatorUs: number
  readonly workersUs: number
  /** Of the node with the most. */
  readonly busiestUs: number
  readonly plantsPerSecond: number
  readonly errors: number
}

const shown: Column<Figures>[] = [
  ['coordinatorUs', 'coordinator µs', 1],
  ['workersUs', 'all workers µs', 1],
  ['busiestUs', 'busiest node µs', 1],
  ['serviceUs', 'service µs', 1],
  ['plantsPerSecond', 'plants/s', 0]
]

const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    workers: { type: 'string', default: '1,2,4' },
    shards: { type: 'string', default: '1,2' },
    seconds: { type: 'string', default: '20' },
    starts: { type: 'string', default: '3' },
    connections: { type: 'string', default: '1024' }
  }
})
const counts = values.workers.split(',').map(Number)
const shardCounts = values.shards.split(',').map(Number)
const numbers = [values.seconds, values.starts, values.connections].map(Number)
const [seconds, starts, connections] = numbers as [number, number, number]
if (![...numbers, ...counts, ...shardCounts].every((n) => n > 0))
  throw new Error(
    'usage: npm run bench -- citus [--workers 1,2,4] [--shards 1,2] [--seconds N] [--starts N] [--connections N]'
  )

const stack = parse(
  readFileSync(join(import.meta.dirname, '../deploy/citus/compose.yaml'), 'utf8'),
  {
    merge: true,
    logLevel: 'silent'
  }
)
const image = process.env.CITUS_IMAGE || /:-([^}]+)\}/.exec(stack.services.db.image)?.[1] || ''
const flags: string[] = stack.services.db.command
const docker = (...args: string[]) => execute('docker', args)

await withDirectory(async (directory, defer) => {
  const layouts: Layout[] = [
    ...counts.map(
      (replicas): Layout => ({
        replicas,
        workers: 0,
        shards: 0,
        sessions: 'coordinator'
      })
    ),
    ...shardCounts.flatMap((shards) =>
      counts.flatMap((workers): Layout[] => [
        { replicas: workers, workers, shards, sessions: 'coordinator' },
        { replicas: workers, workers, shards, sessions: 'workers' }
      ])
    )
  ]
  const minutes = Math.ceil((starts * layouts.length * (seconds + secondsPerStart)) / 60)
  say(`about ${minutes} minutes and a GiB of disk`)
  const lines = layouts.map((layout) => ({ layout, rounds: [] as Figures[] }))
  let machine = ''
  for (const [{ layout, rounds }, start] of inTurns(lines, starts)) {
    const { figures, described } = await measure(layout, directory, defer)
    machine ||= described
    rounds.push(figures)
    const { coordinatorUs, workersUs } = figures
    say(
      `${layout.replicas} replicas, ${layout.workers} workers, ${layout.shards} shards each, sessions at the ${layout.sessions}, start ${start}: ${coordinatorUs.toFixed(1)} + ${workersUs.toFixed(1)} µs`
    )
  }
  const table = formatTable([
    ['replicas', 'workers', 'shards each', 'sessions at', ...shown.map(([, title]) => title)],
    ...lines.map(({ layout, rounds }) => [
      `${layout.replicas}`,
      layout.workers === 0 ? 'one PostgreSQL' : `${layout.workers}`,
      layout.workers === 0 ? '' : `${layout.shards}`,
      layout.workers === 0 ? '' : layout.sessions,
      ...summarizeAll(rounds, shown)
    ])
  ])
  say(
    `\n${machine}; ${image}. ${connections} connections to each replica. ${describeStarts(starts)}, ${seconds} s each.\n\n${table}\n`
  )
  const totals = lines.map(({ rounds }) =>
    rounds.map(({ coordinatorUs, workersUs }) => coordinatorUs + workersUs)
  )
  say(`Starts differ from their median by at most ${noiseOf(totals)} in the CPU of all nodes.`)
  throwIfVoid(lines.flatMap(({ rounds }) => rounds))
})

/** Starts the nodes and the replicas, loads all replicas at once, and removes the nodes. */
async function measure(layout: Layout, directory: string, defer: Defer) {
  const { replicas, workers, shards, sessions } = layout
  const network = `plant-store-bench-${randomBytes(4).toString('hex')}`
  const containers: string[] = []
  const remove = async () => {
    if (containers.length > 0) await docker('rm', '--force', '--volumes', ...containers.splice(0))
    await docker('network', 'rm', '--force', network)
  }
  await docker('network', 'create', network)
  defer(remove)
  try {
    const names = [
      'coordinator',
      ...Array.from({ length: workers }, (_, index) => `worker${index + 1}`)
    ]
    const nodes = await Promise.all(names.map((name) => startNode(name, network, containers)))
    const [coordinator, ...others] = nodes as [Node, ...Node[]]
    await distribute(coordinator, others, shards)
    const entries =
      sessions === 'workers' ? others : Array.from({ length: replicas }, () => coordinator)
    const figures = await load(coordinator, others, entries, directory)
    return { figures, described: await describeMachine(coordinator.url) }
  } finally {
    await remove()
  }
}

async function startNode(name: string, network: string, containers: string[]): Promise<Node> {
  const port = await freePort()
  const container = `${network}-${name}`
  containers.push(container)
  const place = [
    `--network=${network}`,
    `--network-alias=${name}`,
    `--publish=127.0.0.1:${port}:5432`
  ]
  // The network is the benchmark's own, and the port is this machine's.
  const access = ['--env=POSTGRES_HOST_AUTH_METHOD=trust', '--env=POSTGRES_DB=plants']
  await docker(
    'run',
    '--detach',
    `--name=${container}`,
    '--shm-size=256m',
    ...place,
    ...access,
    image,
    'postgres',
    ...flags
  )
  const url = `postgres://postgres@127.0.0.1:${port}/plants`
  await ready(url)
  return { name, url, pid: Number(await docker('inspect', '--format={{.State.Pid}}', container)) }
}

/** Makes the service's table, and spreads it if there are workers. */
async function distribute(coordinator: Node, workers: Node[], shards: number): Promise<void> {
  await migrate(ownProgram(), coordinator.url)
  if (workers.length === 0) return
  await query(coordinator.url, `select citus_set_coordinator_host('${coordinator.name}')`)
  for (const { name } of workers)
    await query(coordinator.url, `select citus_add_node('${name}', 5432)`)
  await query(
    coordinator.url,
    `select create_distributed_table('plants', 'id', shard_count => ${shards * workers.length})`
  )
}

/** Loads a replica at each of the entries, all at the same time. */
async function load(
  coordinator: Node,
  workers: Node[],
  entries: Node[],
  directory: string
): Promise<Figures> {
  const servers = await Promise.all(
    entries.map(async ({ url }, index) => {
      const own = join(directory, `replica${index}`)
      await mkdir(own, { recursive: true })
      return startServer(ownProgram(), url, own, patience)
    })
  )
  try {
    // As many for each replica: with fewer, its batches would be smaller, and each plant dearer.
    const loadAll = (time: number) =>
      Promise.all(servers.map(({ url }) => loadByWrk(url, connections, time)))
    // At first, each session opens its connections to the shards, and a busy machine takes longer than the deadline.
    for (let round = 0; round < mostWarmUps; round++)
      if ((await loadAll(warmUpSeconds)).every(({ plants }) => plants > 0) && round > 0) break
    await sleep(settleMs)
    // Not emptied: the lock for it would send the rows that wait a dearer way.
    const stored = await countPlants(coordinator.url)
    const nodes = [coordinator, ...workers]
    const read = () => [
      ...nodes.map(({ pid }) => treeCpuUs(pid)),
      ...servers.map(({ pid }) => cpuUs(pid))
    ]
    const before = read()
    const seen = await loadAll(seconds)
    await sleep(settleMs)
    const plants = seen.reduce((sum, one) => sum + one.plants, 0)
    const used = read().map((value, index) => (value - (before[index] ?? 0)) / plants)
    const [coordinatorUs = Number.NaN, ...others] = used.slice(0, nodes.length)
    const sum = (parts: number[]) => parts.reduce((total, part) => total + part, 0)
    const added = (await countPlants(coordinator.url)) - stored
    return {
      coordinatorUs,
      workersUs: sum(others),
      busiestUs: Math.max(coordinatorUs, ...others),
      serviceUs: sum(used.slice(nodes.length)),
      plantsPerSecond: sum(seen.map((one) => one.plants / one.seconds)),
      errors: sum(seen.map((one) => one.errors)) + Math.max(0, plants - added)
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
  }
}

async function countPlants(url: string): Promise<number> {
  const [{ count }] = await query(url, 'select count(*)::int from plants')
  return count
}
