/**
 * `npm run bench -- cpu`: what a request costs in one process, alone in a turn of the event loop or among others, without
 * sockets, disk and database.
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

/** What a start measured: µs a request. */
interface Figures {
  name: string
  p10: number
}

const { isQuick, starts, windows } = readOptions({ starts: 7, windows: 250 }, { starts: 2, windows: 50 })
const warmUps = 1_500
/** So many requests come in one turn of the event loop. */
const inOneTurn = [1, 8, 64]

/** Starts one process; its standard output is a file, as a log is. */
async function start(log: string, connections: number): Promise<Figures[]> {
  const output = await open(log, 'w')
  const args = [join(import.meta.dirname, 'start.ts'), ...[connections, warmUps, windows].map(String)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', output.fd, 'pipe'] })
  const [figures, [code]] = await Promise.all([text(child.stderr as Readable), once(child, 'exit')])
  await output.close()
  if (code !== 0) throw new Error(figures)
  return JSON.parse(figures)
}

/** The medians of each server over all starts. */
function summarize(connections: number, taken: Figures[][]) {
  return (taken[0] ?? []).map(({ name }) => {
    const of = (figures: Figures[], wanted: string) =>
      figures.find((one) => one.name === wanted)?.p10 ?? Number.NaN
    const ratioTo = (other: string) => median(taken.map((figures) => of(figures, name) / of(figures, other)))
    return {
      connections,
      name,
      p10Us: median(taken.map((figures) => of(figures, name))),
      toBare: ratioTo('bare Fastify'),
      toDocumented: ratioTo('as documented')
    }
  })
}

const directory = await mkdtemp(join(tmpdir(), 'plant-store-cpu-'))
const rows: ReturnType<typeof summarize> = []
try {
  for (const connections of inOneTurn) {
    const taken: Figures[][] = []
    for (let number = 1; number <= starts; number++) {
      taken.push(await start(join(directory, 'log'), connections))
      process.stdout.write(`${connections} in one turn: start ${number} of ${starts}\n`)
    }
    rows.push(...summarize(connections, taken))
  }
} finally {
  await rm(directory, { recursive: true })
}

const machine = describeMachine([])
const table = formatTable([
  ['in one turn', '', 'p10 µs', '÷ bare Fastify', '÷ as documented'],
  ...rows.map(({ connections, name, p10Us, toBare, toDocumented }) => [
    String(connections),
    name,
    formatNumber(p10Us, 1),
    formatNumber(toBare, 2),
    formatNumber(toDocumented, 2)
  ])
])
const method = `Medians of ${starts} starts, each ${windows} windows of 64 requests, turn by turn; ratios are those of each start.`
await publish('cpu', {
  text: `${machine}. ${method}\n\n${table}`,
  data: { machine, starts, windows, rows },
  errors: 0,
  isQuick
})
