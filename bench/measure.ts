/** One measurement: a load, and what it used; and the middle of several. */
import type { LoadResult } from './load/load.ts'
import { cpuUs, familyCpuUs, peakMiB, resetPeak } from './usage.ts'

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
