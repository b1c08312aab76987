/**
 * `npm run bench -- waiting`: how much memory of a replica an idle connection takes, and how much a create that waits for the
 * database, by its size. Each create has a connection of its own. Prints the table of docs/capacity.md. Options: --creates,
 * --sizes (bytes of name and tag), --starts.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { startPostgres } from '../test/support/postgres/embedded-postgres.ts'
import { withDirectory } from './directory.ts'
import {
  type Column,
  describeMachine,
  describeStarts,
  formatTable,
  loadByWrk,
  noiseOf,
  say,
  summarizeAll,
  throwIfVoid
} from './measure.ts'
import { migrate, ownProgram, startServer, token } from './server.ts'

/** The load before the memory is read, with that many connections: V8's heap has its size. */
const [warmUpConnections, warmUpSeconds] = [64, 4]
/** How many connections are opened at a time: fewer than wait for the process to accept them. */
const atOnce = 100
/** How long the process may be idle before its memory is read, in ms: it collects garbage. */
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
  const lines = sizes.map((size) => ({ size, rounds: [] as Figures[] }))
  for (let start = 0; start < starts; start++)
    for (const { size, rounds } of lines) {
      const figures = await measure(size, databaseUrl, directory)
      rounds.push(figures)
      say(`start ${start + 1} of ${starts}, ${size} bytes: ${figures.createKb.toFixed(1)} kB`)
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
  const server = await startServer(ownProgram(), databaseUrl, directory, {
    MAX_CONNECTIONS: `${creates + warmUpConnections}`,
    // All creates are one caller's, and a long one counts as several.
    WRITE_QUEUE_ROWS: '1000000',
    WRITE_DEADLINE_MS: '120000'
  })
  const blocker = new pg.Client(databaseUrl)
  const sockets: Socket[] = []
  try {
    await loadByWrk(server.url, warmUpConnections, warmUpSeconds)
    await blocker.connect()
    await blocker.query('truncate plants')
    await blocker.query('begin; lock table plants')
    await sleep(idleMs)
    const started = residentKb(server.pid)
    const { hostname, port } = new URL(server.url)
    while (sockets.length < creates) {
      const opened = Array.from({ length: Math.min(atOnce, creates - sockets.length) }, () =>
        connect(Number(port), hostname)
      )
      await Promise.all(opened.map((socket) => once(socket, 'connect')))
      sockets.push(...opened)
    }
    await sleep(idleMs)
    const connected = residentKb(server.pid)
    const answers = sockets.map(async (socket, index) => {
      socket.setEncoding('utf8').write(toRequest(index, size))
      const [text] = await once(socket, 'data')
      return text.startsWith('HTTP/1.1 200 ')
    })
    await sleep(idleMs)
    const waiting = residentKb(server.pid)
    await blocker.query('rollback')
    const results = await Promise.all(answers)
    return {
      startMb: started / 1e3,
      connectionKb: (connected - started) / creates,
      createKb: (waiting - connected) / creates,
      errors: results.filter((isStored) => !isStored).length
    }
  } finally {
    for (const socket of sockets) socket.destroy()
    await blocker.end()
    await server.stop()
  }
}

function toRequest(id: number, size: number): string {
  const body = JSON.stringify({
    id,
    name: 'n'.repeat(Math.ceil(size / 2)),
    tag: 't'.repeat(size / 2)
  })
  return [
    'POST /plants HTTP/1.1',
    'host: plants.test',
    `authorization: Bearer ${token}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
    '',
    body
  ].join('\r\n')
}

/** Returns the memory that a process has in RAM, in kB, by proc_pid_status(5). */
function residentKb(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return (Number(kib) * 1_024) / 1e3
}
