/** What is measured, and how: a load on an empty table, in turns with others; and how the figures are written. */
import { availableParallelism, cpus, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../test/support/postgres/query.ts'
import type { Environment } from './environment.ts'
import { type LoadResult, loadByWrk } from './load.ts'
import type { Program } from './server.ts'
import { cpuUs, familyCpuUs, peakMiB, resetPeak } from './usage.ts'

/** The connections and seconds of the load on every server before its first turn, and the seconds of a load before it is measured. */
const firstWarmUp = [64, 3] as const
const warmUpSeconds = 1
/** How long a server may take to finish the requests that are open when a load ends. */
const settleMs = 250

/** What was measured; NaN where it is not known. */
export interface Figures {
  /** How many creates were acknowledged. */
  readonly plants: number
  readonly plantsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** CPU time of the server under test for each plant, in µs. */
  readonly serverCpuUs: number
  /** CPU time of all of PostgreSQL for each plant, in µs. */
  readonly databaseCpuUs: number
  /** The most memory of the server under test, in MiB. */
  readonly peakMiB: number
  /** Everything that was not a 200, and each plant that was acknowledged and not stored. One makes the run void. */
  readonly errors: number
}

/** How often each contestant is started, and its loads: numbers of connections, and the seconds of each. */
export interface Turns {
  readonly starts: number
  readonly seconds: number
  readonly connections: number[]
}

/** What is compared. */
export interface Contestant {
  readonly name: string
  /** Starts it, measures it at each number of connections, and stops it. */
  measure(turns: Turns): Promise<Figures[]>
}

/** Makes a contestant of a program that serves plants from the database with this URL. */
export function serverContestant(
  environment: Environment,
  name: string,
  program: Program,
  url: string
): Contestant {
  return {
    name,
    async measure({ seconds, connections }) {
      const server = await environment.startServer(program, url)
      const subjects = { postgres: environment.postgres.process.pid, server: server.pid }
      try {
        await loadByWrk(server.url, ...firstWarmUp)
        const figures: Figures[] = []
        for (const count of connections) {
          await loadByWrk(server.url, count, warmUpSeconds)
          await server.clearLog()
          figures.push(await measureOnEmptyTable(subjects, url, () => loadByWrk(server.url, count, seconds)))
        }
        return figures
      } finally {
        await server.stop()
      }
    }
  }
}

/** Runs a load on an empty table and measures it. */
export async function measureOnEmptyTable(
  { postgres = 0, server = 0 }: { postgres: number | undefined; server?: number },
  url: string,
  load: () => Promise<LoadResult>
): Promise<Figures> {
  await sleep(settleMs)
  await query(url, 'truncate plants')
  // So that no measurement pays for earlier writes.
  await query(url, 'checkpoint')
  resetPeak(server)
  const before = { server: cpuUs(server), database: familyCpuUs(postgres) }
  const { plants, seconds, p50Ms, p99Ms, errors } = await load()
  const used = { server: cpuUs(server) - before.server, database: familyCpuUs(postgres) - before.database }
  const [{ count }] = await query(url, 'select count(*)::int from plants')
  return {
    plants,
    plantsPerSecond: plants / seconds,
    p50Ms,
    p99Ms,
    serverCpuUs: used.server / plants,
    databaseCpuUs: used.database / plants,
    peakMiB: peakMiB(server),
    errors: errors + Math.max(0, plants - count)
  }
}

/**
 * Measures the contestants in turns, each alone: of two that run at the same time, the one that was started second costs up
 * to a tenth more, whatever its code. Each round begins with another one, and every second round has the opposite order, so
 * that none always follows the same one, whose pages may still be on their way to the disk. Returns for each contestant the
 * figures of each start, at each number of connections.
 */
export async function measureInTurns(contestants: Contestant[], turns: Turns): Promise<Figures[][][]> {
  const taken: Figures[][][] = contestants.map(() => [])
  const count = contestants.length
  for (let start = 0; start < turns.starts; start++) {
    for (let turn = 0; turn < count; turn++) {
      const index = (start + (start % 2 === 1 ? count - turn : turn)) % count
      const { name, measure } = contestants[index] as Contestant
      const figures = await measure(turns)
      taken[index]?.push(figures)
      const rates = figures.map(({ plantsPerSecond }) => Math.round(plantsPerSecond)).join(', ')
      process.stdout.write(`start ${start + 1} of ${turns.starts}, ${name}: ${rates} plants/s\n`)
    }
  }
  return taken
}

/** Returns the median of each figure; of the memory the most. */
export function summarize(rounds: Figures[]): Figures {
  const figures = Object.keys(rounds[0] ?? {}) as (keyof Figures)[]
  const medians = figures.map((figure) => [figure, median(rounds.map((round) => round[figure]))])
  return { ...Object.fromEntries(medians), peakMiB: Math.max(...rounds.map((round) => round.peakMiB)) }
}

/** Returns the middle value, or the mean of the two in the middle. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
}

/** Returns today's date, the machine and the versions in one line; nothing of it names the machine or its paths. */
export async function describeMachine({ postgres }: Environment, ...programs: string[]): Promise<string> {
  const [{ server_version }] = await query(postgres.url('postgres'), 'show server_version')
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const hardware = `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'an unknown CPU'}, ${memory}`
  const date = new Date().toISOString().slice(0, 10)
  return `${date}; ${hardware}; ${[`Node ${process.versions.node}`, `PostgreSQL ${server_version}`, ...programs].join(', ')}`
}

/** Formats a table of Markdown, all columns but the first to the right. */
export function formatTable([head = [], ...rows]: string[][]): string {
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'))
  return [head, rule, ...rows].map((cells) => `|${cells.join('|')}|`).join('\n')
}

/** Formats a number with that many digits after the point; what is not known as n/a. */
export function formatNumber(value: number, digits: number): string {
  if (!Number.isFinite(value)) return 'n/a'
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
