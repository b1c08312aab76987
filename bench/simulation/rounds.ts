/** What the simulation is told, and what it is compared with, measured within seconds of each other. */
import { parseMetrics } from '../../dev/metrics-page.ts'
import { checkpoint, clear, countPlants, readLogBytes, readTableBytes } from '../database.ts'
import type { Lab } from '../lab.ts'
import type { Generator } from '../load/http.ts'
import { type Figures, measure } from '../measure.ts'
import type { Server } from '../server.ts'
import { ownCpuUs } from '../usage.ts'
import { measureCommits, measureExchange } from './calibrate.ts'
import { type Commit, commitOf } from './database.ts'
import type { RequestCost } from './forecast.ts'

/** The service under a number of connections, and what the model is told of the machine at that time. */
export interface Sample {
  service: Figures & { rowsPerBatch: number }
  /** The same some seconds before; the costs are from it. */
  earlier: Figures
  cost: RequestCost
  commits: Commit[]
  /** Of one plant: of PostgreSQL's log, and of the table and its index. */
  bytes: { log: number; table: number }
  errors: number
}

/** For each size; in a shorter time a stall of the disk would weigh too much. */
const commitSeconds = 0.8
const warmUp = { connections: 64, seconds: 3 }

/** Measures all numbers of connections in turn, round by round; gives the samples of each round, and an exchange's bytes. */
export async function takeRounds(
  lab: Lab,
  generator: Generator,
  { rounds, seconds, connections }: { rounds: number; seconds: number; connections: number[] }
): Promise<{ taken: Sample[][]; exchange: Awaited<ReturnType<typeof measureExchange>> }> {
  const postgres = lab.postgres.process.pid as number
  const url = await lab.createDatabase('plants')
  const service = await lab.startServer('service', url)
  const ceiling = await lab.startServer('ceiling', url)
  for (const server of [service, ceiling]) await generator.load(server.url, warmUp)
  const exchange = await measureExchange(service.url)

  /** Loads the service on an empty table, and counts the rows of its batches. */
  async function load(connections: number) {
    await service.clearLog()
    await clear(url)
    await checkpoint(url)
    const before = { logBytes: await readLogBytes(url), ownUs: ownCpuUs(), ...(await countBatches(service)) }
    const figures = await measure({ postgres, server: service.pid }, () =>
      generator.load(service.url, { connections, seconds })
    )
    const generatorMs = (ownCpuUs() - before.ownUs) / 1000 / figures.plants
    const { rows, batches } = await countBatches(service)
    return {
      ...figures,
      generatorMs,
      rowsPerBatch: (rows - before.rows) / (batches - before.batches),
      logBytes: ((await readLogBytes(url)) - before.logBytes) / figures.plants
    }
  }

  async function takeSample(connections: number): Promise<Sample> {
    const earlier = await load(connections)
    await clear(url)
    await checkpoint(url)
    const commits = await takeCommits()
    const figures = await load(connections)
    const stored = await countPlants(url)
    return {
      service: figures,
      earlier,
      cost: {
        connections,
        requestMs:
          earlier.serverCpuUs / 1000 -
          commitOf(commits, earlier.rowsPerBatch).serverMs / earlier.rowsPerBatch,
        generatorMs: earlier.generatorMs
      },
      commits,
      bytes: {
        log: figures.logBytes,
        table: (await readTableBytes(url)) / stored
      },
      errors: earlier.errors + figures.errors + Math.max(0, figures.plants - stored)
    }
  }

  const takeCommits = () => measureCommits(url, postgres, commitSeconds, () => measureExchange(ceiling.url))
  await takeCommits() // the first ones are slower: nothing is compiled yet
  const taken: Sample[][] = []
  for (let round = 1; round <= rounds; round++) {
    const samples: Sample[] = []
    for (const count of connections) {
      const sample = await takeSample(count)
      samples.push(sample)
      const rate = Math.round(sample.service.plantsPerSecond)
      process.stdout.write(`round ${round}, ${count} connections: ${rate} plants/s\n`)
    }
    taken.push(samples)
  }
  return { taken, exchange }
}

/** Gives how many batches the service has committed, and their rows, from its metrics. */
async function countBatches(service: Server): Promise<{ rows: number; batches: number }> {
  const page = await service.readMetrics()
  return {
    rows: parseMetrics(page).value('plant_store_batch_rows_sum'),
    batches: parseMetrics(page).value('plant_store_batch_rows_count')
  }
}
