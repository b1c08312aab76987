/** The peers under load, in alternating rounds. */
import type { Environment } from '../environment.ts'
import type { Generator } from '../load/http.ts'
import { type Figures, firstWarmUp, measureServer, summarize } from '../measure.ts'
import type { Running } from './interruptions.ts'
import { peers } from './peers.ts'

/** Most of the peers refuse ids beyond 2^53, or round them. */
const ids = 'safe'

/** What the rounds are. */
export interface Rounds {
  rounds: number
  seconds: number
  connections: number[]
}

/** Starts every peer on its database, and returns them warm. */
export async function startAll(
  environment: Environment,
  generator: Generator,
  urls: string[]
): Promise<Running[]> {
  const running: Running[] = []
  for (const [index, { program }] of peers.entries()) {
    const databaseUrl = urls[index] as string
    const server = await environment.startServer(program, databaseUrl)
    await generator.load(server.url, { ...firstWarmUp, ids })
    running.push({ program, server, databaseUrl })
  }
  return running
}

/** Returns for each peer its figures at each number of connections. */
export async function measureAll(
  environment: Environment,
  generator: Generator,
  running: Running[],
  { rounds, seconds, connections }: Rounds
) {
  const measured = connections.flatMap((connections) =>
    running.map(({ server, databaseUrl }, index) => ({
      connections,
      index,
      server,
      databaseUrl,
      taken: [] as Figures[]
    }))
  )
  for (let round = 1; round <= rounds; round++) {
    const turns = round % 2 === 0 ? measured.toReversed() : measured
    for (const { connections, index, server, databaseUrl, taken } of turns) {
      const load = { connections, seconds, ids } as const
      const figures = await measureServer(environment, generator, server, databaseUrl, load)
      taken.push(figures)
      const rate = Math.round(figures.plantsPerSecond)
      process.stdout.write(
        `round ${round}, ${connections} connections, ${peers[index]?.title}: ${rate} plants/s\n`
      )
    }
  }
  return running.map((_, index) =>
    measured
      .filter((one) => one.index === index)
      .map(({ connections, taken }) => ({ connections, ...summarize(taken) }))
  )
}
