/**
 * `npm run bench -- waiting`: how much memory of a replica an idle connection takes, and how much a create that waits for the
 * database, by its size. Each create has a connection of its own. Prints the table of docs/capacity.md. Options: --creates,
 * --sizes (bytes of name and tag), --starts. It reads /proc, so it needs Linux.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { parseMetrics } from '../test/support/metrics-page.ts'
import { freePort, startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { type Client, open, request } from '../test/support/sockets.ts'
import { is, until } from '../test/support/until.ts'
import { withDirectory } from './directory.ts'
import {
  type Column,
  describeMachine,
  describeStarts,
  formatTable,
  inTurns,
  loadByWrk,
  noiseOf,
  say,
  summarizeAll,
  throwIfVoid
} from './measure.ts'
import { migrate, ownProgram, startServer, token } from './server.ts'

/** What each start takes, in seconds. */
const secondsPerStart = 20
/** The load before the memory is read, with that many connections: V8's heap has its size. */
const [warmUpConnections, warmUpSeconds] = [64, 4]
/** How many connections are opened at a time: fewer than wait for the process to accept them. */
const atOnce = 100
/** How long the process is idle before its memory is read, in ms: it collects garbage. */
const idleMs = 2_000

/** Memory that the process has in RAM. */
interface Figures {
  /** After the first load, without connections, in MB. */
  readonly startMb: number
  /** For each idle connection, in kB. What the kernel has of it is not counted. */
  readonly connectionKb: number
  /** For each create that waits, in kB, besides its connection. */
  readonly createKb: number
  readonly errors: number
}

const shown: Column<Figures>[] = [
  ['startMb', 'the process, MB', 0],
  ['connectionKb', 'a connection, kB', 1],
  ['createKb', 'a create that waits, kB', 1]
]

const { values } = parseArgs({
  args: process.argv.slice(3),
  options: {
    creates: { type: 'string', default: '10000' },
    sizes: { type: 'string', default: '16,1000,8000' },
    starts: { type: 'string', default: '3' }
  }
})
const [creates, starts] = [Number(values.creates), Number(values.starts)]
const sizes = values.sizes.split(',').map(Number)
if (![creates, starts, ...sizes].every((n) => n > 0))
  throw new Error('usage: npm run bench -- waiting [--creates N] [--sizes N,N] [--starts N]')

await withDirectory(async (directory, defer) => {
  const postgres = await startPostgres({ directory, settings: {} })
  defer(postgres.stop)
  const databaseUrl = postgres.url('postgres')
  await migrate(ownProgram(), databaseUrl)
  say(
    `about ${Math.ceil((starts * sizes.length * secondsPerStart) / 60)} minutes and a GiB of disk`
  )
  const lines = sizes.map((size) => ({ size, rounds: [] as Figures[] }))
  for (const [{ size, rounds }, start] of inTurns(lines, starts)) {
    const figures = await measure(size, databaseUrl, directory)
    rounds.push(figures)
    say(`start ${start} of ${starts}, ${size} bytes: ${figures.createKb.toFixed(1)} kB`)
  }
  const table = formatTable([
    ['bytes of name and tag', ...shown.map(([, title]) => title)],
    ...lines.map(({ size, rounds }) => [`${size}`, ...summarizeAll(rounds, shown)])
  ])
  const method = `${describeStarts(starts)}, ${creates} creates on as many connections.`
  say(`\n${await describeMachine(databaseUrl)}. ${method}\n\n${table}\n`)
  const noise = noiseOf(lines.map(({ rounds }) => rounds.map(({ createKb }) => createKb)))
  say(`Starts differ from their median by at most ${noise} in the memory of a create.`)
  throwIfVoid(lines.flatMap(({ rounds }) => rounds))
})

/** Lets creates of one size wait for a lock of the table, and then lets them be stored. */
async function measure(size: number, databaseUrl: string, directory: string): Promise<Figures> {
  const metricsPort = await freePort()
  const server = await startServer(ownProgram(), databaseUrl, directory, {
    METRICS_PORT: `${metricsPort}`,
    MAX_CONNECTIONS: `${creates + warmUpConnections}`,
    // All creates are one caller's, and a long one counts as several.
    WRITE_QUEUE_ROWS: '1000000',
    WRITE_DEADLINE_MS: '120000'
  })
  /** Returns the memory once a metric has this value, and the process has been idle. */
  const readMemory = async (metric: string, value: number) => {
    const read = async () => {
      const page = await fetch(`http://127.0.0.1:${metricsPort}/metrics`)
      return parseMetrics(await page.text()).value(`plant_store_${metric}`)
    }
    await until(`${metric} is ${value}`, read, is(value))
    await sleep(idleMs)
    return residentKb(server.pid)
  }
  const blocker = new pg.Client(databaseUrl)
  const ends: (() => void)[] = []
  const openOne = () => open({ teardown: (end) => ends.push(end) }, server.url)
  try {
    await loadByWrk(server.url, warmUpConnections, warmUpSeconds)
    await blocker.connect()
    await blocker.query('truncate plants')
    await blocker.query('begin; lock table plants')
    const started = await readMemory('http_connections', 0)
    const clients: Client[] = []
    while (clients.length < creates) {
      const length = Math.min(atOnce, creates - clients.length)
      clients.push(...(await Promise.all(Array.from({ length }, openOne))))
    }
    const connected = await readMemory('http_connections', creates)
    const stored = clients.map((client, index) => create(client, index, size))
    const waiting = await readMemory('queue_rows', creates)
    await blocker.query('rollback')
    const results = await Promise.all(stored)
    return {
      startMb: started / 1e3,
      connectionKb: (connected - started) / creates,
      createKb: (waiting - connected) / creates,
      errors: results.filter((isStored) => !isStored).length
    }
  } finally {
    for (const end of ends) end()
    await blocker.end()
    await server.stop()
  }
}
/** Creates a plant with so many bytes of name and tag. Resolves with whether it was stored; a lost connection counts as no. */
async function create(client: Client, id: number, size: number): Promise<boolean> {
  const body = JSON.stringify({
    id,
    name: 'n'.repeat(Math.ceil(size / 2)),
    tag: 't'.repeat(size / 2)
  })
  client.send(request(body, { authorization: `Bearer ${token}` }))
  return client.responses().then(
    ([response]) => response?.status === 200,
    () => false
  )
}

/** Returns the memory that a process has in RAM, in kB, by proc_pid_status(5). */
function residentKb(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (Number(kib) * 1_024) / 1e3
}
