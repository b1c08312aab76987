/**
 * `npm run bench -- cpu`: what a request costs in one process, alone in a turn of the event loop or among others: over a
 * database in memory, and with the pool, the driver and a socket to a thread that speaks PostgreSQL's protocol.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describeMachine } from '../machine.ts'
import { median } from '../measure.ts'
import { readOptions } from '../options.ts'
import { formatNumber, formatTable, publish } from '../report.ts'
import { options } from '../server.ts'

/** What a start measured: CPU µs a request. */
interface Figures {
  name: string
  meanUs: number
}

const { isQuick, starts, windows } = readOptions({ starts: 7, windows: 250 }, { starts: 1, windows: 50 })
const warmUps = 500
/** So many requests come in one turn of the event loop. */
const inOneTurn = [1, 8, 64]
/** What stands for the database. */
const databases = ['memory', 'socket'] as const
type Database = (typeof databases)[number]

/** Starts one process; its standard output is a file, as a log is. */
async function start(log: string, database: Database, connections: number): Promise<Figures[]> {
  const output = await open(log, 'w')
  const numbers = [connections, warmUps, windows].map(String)
  const args = [...options, join(import.meta.dirname, 'start.ts'), database, ...numbers]
  const child = spawn(process.execPath, args, { stdio: ['ignore', output.fd, 'pipe'] })
  const [figures, [code]] = await Promise.all([text(child.stderr as Readable), once(child, 'exit')])
  await output.close()
  if (code !== 0) throw new Error(figures)
  return JSON.parse(figures)
}

/** Returns the medians of a server over all starts. */
function summarize(name: string, taken: Figures[][]) {
  const of = (figures: Figures[], wanted: string) =>
    figures.find((one) => one.name === wanted)?.meanUs ?? Number.NaN
  const ratioTo = (other: string) => median(taken.map((figures) => of(figures, name) / of(figures, other)))
  return {
    meanUs: median(taken.map((figures) => of(figures, name))),
    toBare: ratioTo('bare Fastify'),
    toDocumented: ratioTo('as documented')
  }
}

const directory = await mkdtemp(join(tmpdir(), 'plant-store-cpu-'))
const rows = []
try {
  for (const connections of inOneTurn) {
    const taken: Record<Database, Figures[][]> = { memory: [], socket: [] }
    for (let number = 1; number <= starts; number++) {
      for (const database of databases)
        taken[database].push(await start(join(directory, 'log'), database, connections))
      process.stdout.write(`${connections} in one turn: start ${number} of ${starts}\n`)
    }
    for (const { name } of taken.memory[0] ?? []) {
      const [memory, socket] = [summarize(name, taken.memory), summarize(name, taken.socket)]
      rows.push({ connections, name, memory, socket })
    }
  }
} finally {
  await rm(directory, { recursive: true })
}

const machine = describeMachine([])
const ratios = ['÷ bare Fastify', '÷ as documented']
const table = formatTable([
  ['in one turn', '', 'memory, µs', ...ratios, 'socket, µs', ...ratios],
  ...rows.map(({ connections, name, ...row }) => {
    const cells = databases.flatMap((database) => {
      const { meanUs, toBare, toDocumented } = row[database]
      return [formatNumber(meanUs, 1), formatNumber(toBare, 2), formatNumber(toDocumented, 2)]
    })
    return [String(connections), name, ...cells]
  })
])
const method = [
  "CPU time of the server's thread for a request, with its collections of garbage.",
  `Medians of ${starts} starts, each ${windows} windows of 64 requests, turn by turn; ratios are those of each start.`,
  `In memory, all have the service's group commit. Each has the service's options of V8: ${options.join(' ')}.`
].join(' ')
await publish('cpu', {
  text: `${machine}. ${method}\n\n${table}`,
  data: { machine, starts, windows, rows },
  errors: 0,
  isQuick
})
