/**
 * A fair comparison: each contestant is started alone, warmed, measured and stopped before the next one starts. Of two that
 * run at the same time, the one that was started second costs up to a tenth more, whatever its code. Starts of one program
 * differ by as much, so only several of each say anything.
 */
import type { Environment } from './environment.ts'
import type { Generator } from './load/http.ts'
import { type Figures, firstWarmUp, measureServer, summarize } from './measure.ts'
import type { Ids } from './plant.ts'
import type { Program } from './server.ts'

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

/** A contestant's figures: of each start, for each number of connections in their order. */
export type Taken = Figures[][]

/** Makes a contestant of a program that serves plants from the database with this URL. */
export function serverContestant(
  environment: Environment,
  generator: Generator,
  { name, program, url, ids }: { name: string; program: Program; url: string; ids: Ids }
): Contestant {
  return {
    name,
    async measure({ seconds, connections }) {
      const server = await environment.startServer(program, url)
      try {
        await generator.load(server.url, { ...firstWarmUp, ids })
        const figures: Figures[] = []
        for (const count of connections) {
          const load = { connections: count, seconds, ids }
          figures.push(await measureServer(environment, generator, server, url, load))
        }
        return figures
      } finally {
        await server.stop()
      }
    }
  }
}

/**
 * Measures the contestants in turns. Each round begins with another one, and every second has the opposite order, so that
 * none always follows the same one, whose pages may still be on their way to the disk.
 */
export async function measureInTurns(contestants: Contestant[], turns: Turns): Promise<Taken[]> {
  const taken: Taken[] = contestants.map(() => [])
  const count = contestants.length
  for (let start = 0; start < turns.starts; start++) {
    const isReversed = start % 2 === 1
    for (let turn = 0; turn < count; turn++) {
      const index = (start + (isReversed ? count - turn : turn)) % count
      const { name, measure } = contestants[index] as Contestant
      const figures = await measure(turns)
      taken[index]?.push(figures)
      const rates = figures.map(({ plantsPerSecond }) => Math.round(plantsPerSecond)).join(', ')
      process.stdout.write(`start ${start + 1} of ${turns.starts}, ${name}: ${rates} plants/s\n`)
    }
  }
  return taken
}

/** Returns a contestant's figures at each number of connections: over its starts, as `summarize` has them. */
export const summarizeStarts = (taken: Taken, connections: number[]) =>
  connections.map((connections, index) => ({
    connections,
    ...summarize(taken.map((figures) => figures[index] as Figures))
  }))
