/** What is measured, and how: a load on an empty table, in turns with others; and how the figures are written. */
import { randomInt } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { execute, tryExecute } from '../test/support/execute.ts'
import { query } from '../test/support/postgres/query.ts'
import { type Program, startServer, token } from './server.ts'

/** The connections and seconds of the load on every server before its first turn, and the seconds of a load before it is measured. */
const firstWarmUp = [64, 3] as const
const warmUpSeconds = 1
/** How long a server may take to finish the requests that are open when a load ends. */
export const settleMs = 250
/** A tick of /proc is 1/100 s for every program. */
const tickUs = 10_000

/** What was measured; NaN where it is not known. */
export interface Figures {
  readonly plantsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** CPU time of the server under test for each plant, in µs. */
  readonly cpuUs: number
  /** Everything that was not a 200, and each plant that was acknowledged and not stored. One makes the run void. */
  readonly errors: number
}

/** What a load saw. */
export interface Seen {
  readonly plants: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly errors: number
}

/** How often each contestant is started, its loads, and where its log goes. */
interface Turns {
  readonly starts: number
  readonly seconds: number
  readonly connections: number[]
  readonly directory: string
}

type Contestant = Program & { databaseUrl: string }

/**
 * Yields each item once for each start, with the number of the start, from 1 on. Every second start has the opposite order, so
 * that none always follows the same one, whose pages may still be on their way to the disk.
 */
export function* inTurns<T>(items: T[], starts: number): Generator<[item: T, start: number]> {
  for (let start = 1; start <= starts; start++)
    for (const item of start % 2 === 0 ? items.toReversed() : items) yield [item, start]
}

/**
 * Measures the contestants in turns, each alone: of two that run at the same time, the one that was started second costs up
 * to a tenth more, whatever its code. Returns for each contestant the figures of each start, at each number of connections.
 */
export async function measureInTurns(
  contestants: Contestant[],
  turns: Turns
): Promise<Figures[][][]> {
  const taken = contestants.map((contestant) => ({ contestant, rounds: [] as Figures[][] }))
  for (const [{ contestant, rounds }, start] of inTurns(taken, turns.starts)) {
    const figures = await measure(contestant, turns)
    rounds.push(figures)
    const rates = figures.map(({ plantsPerSecond }) => Math.round(plantsPerSecond)).join(', ')
    say(`start ${start} of ${turns.starts}, ${contestant.name}: ${rates} plants/s`)
  }
  return taken.map(({ rounds }) => rounds)
}

async function measure(
  contestant: Contestant,
  { seconds, connections, directory }: Turns
): Promise<Figures[]> {
  const { databaseUrl } = contestant
  // It has 10 clients, whatever the number of connections.
  if (contestant.name === 'pgbench') {
    const figures = await measureOnEmptyTable(databaseUrl, undefined, () =>
      loadByPgbench(databaseUrl, seconds)
    )
    return connections.map(() => figures)
  }
  const server = await startServer(contestant, databaseUrl, directory)
  try {
    const sent = contestant.access?.token
    await loadByWrk(server.url, ...firstWarmUp, undefined, sent)
    const figures: Figures[] = []
    for (const count of connections) {
      await loadByWrk(server.url, count, warmUpSeconds, undefined, sent)
      await server.clearLog()
      const load = () => loadByWrk(server.url, count, seconds, undefined, sent)
      figures.push(await measureOnEmptyTable(databaseUrl, server.pid, load))
    }
    return figures
  } finally {
    await server.stop()
  }
}

async function measureOnEmptyTable(
  databaseUrl: string,
  pid: number | undefined,
  load: () => Promise<Seen>
): Promise<Figures> {
  await sleep(settleMs)
  await query(databaseUrl, 'truncate plants')
  // So that no measurement pays for earlier writes.
  await query(databaseUrl, 'checkpoint')
  const before = cpuUs(pid)
  const { plants, seconds, p50Ms, p99Ms, errors } = await load()
  const used = cpuUs(pid) - before
  const [{ count }] = await query(databaseUrl, 'select count(*)::int from plants')
  const lost = Math.max(0, plants - count)
  return {
    plantsPerSecond: plants / seconds,
    p50Ms,
    p99Ms,
    cpuUs: used / plants,
    errors: errors + lost
  }
}

/**
 * Posts plants to `url`; each connection sends its next request when it has the response to the one before. The ids are
 * random, or grow from `firstId`, an id of 16 digits.
 */
export async function loadByWrk(
  url: string,
  connections: number,
  seconds: number,
  firstId?: bigint,
  sent = token
): Promise<Seen> {
  const fields = ['-H', `authorization: Bearer ${sent}`, '-H', 'content-type: application/json']
  const shape = ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '--timeout', '30s']
  const ids =
    firstId === undefined ? ['random', `${randomInt(2 ** 32)}`] : ['growing', `${firstId}`]
  const script = ['-s', join(import.meta.dirname, 'wrk.lua'), url, '--', ...ids]
  const output = await execute('wrk', [...shape, ...fields, ...script])
  return JSON.parse(output.slice(output.lastIndexOf('\n{')))
}

/** Inserts the same rows from 10 clients, with a prepared statement each: what one insert a transaction can reach. */
async function loadByPgbench(databaseUrl: string, seconds: number): Promise<Seen> {
  const shape = ['-n', '-M', 'prepared', '-c', '10', '-j', '1', '-T', `${seconds}`]
  const script = join(import.meta.dirname, 'pgbench.sql')
  const output = await execute('pgbench', [...shape, '-f', script, databaseUrl])
  const plants = Number(/actually processed: (\d+)/.exec(output)?.[1])
  return { plants, seconds, p50Ms: Number.NaN, p99Ms: Number.NaN, errors: 0 }
}

/** Returns the CPU time that a process has used, in µs, by proc_pid_stat(5); NaN where there is no /proc. */
export function cpuUs(pid: number | undefined): number {
  const stat = readStat(pid)
  return stat ? stat.ownUs : Number.NaN
}

/** Returns the CPU time of a process and its children, in µs, also of those that have ended; NaN where there is no /proc. */
export function treeCpuUs(pid: number): number {
  const stat = readStat(pid)
  if (!stat) return Number.NaN
  const others = readdirSync('/proc').map((name) =>
    /^\d+$/.test(name) ? readStat(Number(name)) : undefined
  )
  const children = others.filter((other) => other?.parent === pid)
  return children.reduce((sum, child) => sum + (child?.ownUs ?? 0), stat.ownUs + stat.endedUs)
}

/** Returns a process's parent, its CPU time and that of its children that have ended; undefined if it is not there. */
function readStat(pid: number | undefined) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The second field, the program's name, can hold blanks and parentheses.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const us = (first: number) => (Number(fields[first]) + Number(fields[first + 1])) * tickUs
    return { parent: Number(fields[1]), ownUs: us(11), endedUs: us(13) }
  } catch {
    return undefined
  }
}

/** Returns the middle value, or the mean of the two in the middle; NaN if one is not known. */
export function medianOf(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return (
    ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
  )
}

/** Returns the median with that many digits after the point; n/a if not known. */
export function summarize(values: (number | undefined)[], digits: number): string {
  const median = medianOf(values.map((value) => value ?? Number.NaN))
  if (!Number.isFinite(median)) return 'n/a'
  return median.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits
  })
}

/** A column of a table: the figure it shows, its title, and its digits after the point. */
export type Column<F> = [figure: keyof F, title: string, digits: number]

/** Returns the cells of a line: the median of each column's figure over the starts. */
export function summarizeAll<F extends Record<keyof F, number>>(
  rounds: F[],
  columns: Column<F>[]
): string[] {
  return columns.map(([figure, , digits]) =>
    summarize(
      rounds.map((round) => round[figure]),
      digits
    )
  )
}

/** Returns how far a value is from the median of its list at most, such as `12 %`. */
export function noiseOf(lists: number[][]): string {
  const apart = lists.flatMap((values) => {
    const median = medianOf(values)
    return values.map((value) => Math.abs(value / median - 1))
  })
  return `${Math.ceil(100 * Math.max(...apart))} %`
}

/** Throws if a request failed, or if a plant that was acknowledged was not stored. */
export function throwIfVoid(rounds: Pick<Figures, 'errors'>[]): void {
  const errors = rounds.reduce((sum, round) => sum + round.errors, 0)
  if (errors > 0) throw new Error(`void: ${errors} requests failed or were lost`)
}

/** Writes a line to standard output. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** Returns today's date, the machine and the versions in one line; nothing of it names the machine or its paths. */
export async function describeMachine(databaseUrl: string): Promise<string> {
  const [{ server_version }] = await query(databaseUrl, 'show server_version')
  const [, wrk] = /^wrk (\S+)/.exec((await tryExecute('wrk', ['--version'])) ?? '') ?? []
  const hardware = `${availableParallelism()} cores of ${cpus()[0]?.model.trim() ?? 'an unknown CPU'}`
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  const date = new Date().toISOString().slice(0, 10)
  return `${date}; ${hardware}, ${memory}; Node ${process.versions.node}, PostgreSQL ${server_version}, wrk ${wrk}`
}

/** Returns what the figures of so many starts are, as the beginning of a sentence. */
export const describeStarts = (starts: number): string =>
  starts === 1 ? 'One start' : `Medians of ${starts} starts`

/** Formats a table of Markdown, all columns but the first to the right. */
export function formatTable([head = [], ...rows]: string[][]): string {
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'))
  return [head, rule, ...rows].map((cells) => `|${cells.join('|')}|`).join('\n')
}
