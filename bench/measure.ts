/** One measurement: a load, and what it used; and the middle of several. */
import { setTimeout as sleep } from 'node:timers/promises'
import { checkpoint, clear, countPlants } from './database.ts'
import type { Environment } from './environment.ts'
import type { Generator } from './load/http.ts'
import type { Load, LoadResult } from './load/load.ts'
import type { Server } from './server.ts'
import { cpuUs, familyCpuUs, peakMiB, resetPeak } from './usage.ts'

/** The load on every server before its first turn. */
export const firstWarmUp = { connections: 64, seconds: 3 }
const warmUpSeconds = 1
/** How long a server may take to finish the requests that are open when a load ends. */
const settleMs = 250

/** What was measured; NaN where it is not known. */
export interface Figures {
  /** How many creates were acknowledged. */
  plants: number
  plantsPerSecond: number
  p50Ms: number
  p99Ms: number
  /** CPU time of the server under test for each plant, in µs. */
  serverCpuUs: number
  /** CPU time of all of PostgreSQL for each plant, in µs. */
  databaseCpuUs: number
  /** The most memory of the server under test, in MiB. */
  peakMiB: number
  /** Everything that was not a 200; one of them invalidates the benchmark. */
  errors: number
}

/** The processes whose use is measured. */
export interface Subjects {
  postgres: number | undefined
  /** None where the load works on PostgreSQL itself. */
  server?: number
}

/** Runs a load and measures it. */
export async function measure(
  { postgres = 0, server = 0 }: Subjects,
  load: () => Promise<LoadResult>
): Promise<Figures> {
  resetPeak(server)
  const before = { server: cpuUs(server), database: familyCpuUs(postgres) }
  const { plants, seconds, p50Ms, p99Ms, errors } = await load()
  return {
    plants,
    plantsPerSecond: plants / seconds,
    p50Ms,
    p99Ms,
    serverCpuUs: (cpuUs(server) - before.server) / plants,
    databaseCpuUs: (familyCpuUs(postgres) - before.database) / plants,
    peakMiB: peakMiB(server),
    errors
  }
}

/** Measures a server after a second of the same load, on an empty table. A lost plant is an error. */
export async function measureServer(
  environment: Environment,
  generator: Generator,
  server: Server,
  url: string,
  load: Load
): Promise<Figures> {
  await generator.load(server.url, { ...load, seconds: warmUpSeconds })
  await server.clearLog()
  const subjects = { postgres: environment.postgres.process.pid, server: server.pid }
  return measureOnEmptyTable(subjects, url, () => generator.load(server.url, load))
}

/** Runs a load on an empty table and measures it. A plant that is acknowledged and not stored is an error. */
export async function measureOnEmptyTable(
  subjects: Subjects,
  url: string,
  load: () => Promise<LoadResult>
): Promise<Figures> {
  await sleep(settleMs)
  await clear(url)
  await checkpoint(url)
  const figures = await measure(subjects, load)
  const lost = Math.max(0, figures.plants - (await countPlants(url)))
  return { ...figures, errors: figures.errors + lost }
}

/** Returns the median of each figure; of the memory the most, of the errors all. */
export function summarize(rounds: Figures[]): Figures {
  const of = (figure: keyof Figures) => rounds.map((round) => round[figure])
  return {
    plants: median(of('plants')),
    plantsPerSecond: median(of('plantsPerSecond')),
    p50Ms: median(of('p50Ms')),
    p99Ms: median(of('p99Ms')),
    serverCpuUs: median(of('serverCpuUs')),
    databaseCpuUs: median(of('databaseCpuUs')),
    peakMiB: Math.max(...of('peakMiB')),
    errors: of('errors').reduce((sum, errors) => sum + errors, 0)
  }
}

/** Returns the middle value, or the mean of the two in the middle. */
export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2
}
