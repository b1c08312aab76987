/** What the simulation is told, and what it is compared with, measured within seconds of each other. */
import { checkpoint, clear, countPlants, readLogBytes, readTableBytes } from '../database.ts'
import type { Lab } from '../lab.ts'
import type { Generator } from '../load/http.ts'
import { type Figures, measure } from '../measure.ts'
import type { Server } from '../server.ts'
import { coresUs, ownCpuUs } from '../usage.ts'
import { measureCommits, measureExchange } from './calibrate.ts'
import type { RequestCost } from './forecast.ts'
import { type Commit, commitOf } from './model.ts'

/** The service under a number of connections, and what the model is told of the machine at that time. */
export interface Sample {
  service: Figures & { rowsPerBatch: number }
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

  /** Loads a server on an empty table. */
  async function load(server: Server, connections: number) {
    await server.clearLog()
    await clear(url)
    await checkpoint(url)
    const logBytes = await readLogBytes(url)
    const before = { own: ownCpuUs(), cores: coresUs() }
    const figures = await measure({ postgres, server: server.pid }, () =>
      generator.load(server.url, { connections, seconds })
    )
    const { busy, stolen } = coresUs()
    return {
      ...figures,
      generatorMs: (ownCpuUs() - before.own) / 1000 / figures.plants,
      logBytes: ((await readLogBytes(url)) - logBytes) / figures.plants,
      stretch: 1 + (stolen - before.cores.stolen) / (busy - before.cores.busy)
    }
  }

  /** Loads the service, and counts the rows of its batches. */
  async function loadService(connections: number) {
    const before = await countBatches(service)
    const figures = await load(service, connections)
    const after = await countBatches(service)
    return { ...figures, rowsPerBatch: (after.rows - before.rows) / (after.batches - before.batches) }
  }

  async function takeSample(connections: number): Promise<Sample> {
    const told = await loadService(connections)
    const alone = await load(ceiling, 1)
    await clear(url)
    await checkpoint(url)
    const commits = await takeCommits()
    const figures = await loadService(connections)
    const stored = await countPlants(url)
    return {
      service: figures,
      cost: {
        connections,
        requestMs:
          told.serverCpuUs / 1000 - commitOf(commits, told.rowsPerBatch).serverMs / told.rowsPerBatch,
        generatorMs: told.generatorMs,
        stretch: told.stretch,
        hopMs: Math.max(0, (1000 / alone.plantsPerSecond - alone.serverCpuUs / 1000 - alone.generatorMs) / 2)
      },
      commits,
      bytes: {
        log: figures.logBytes,
        table: (await readTableBytes(url)) / stored
      },
      errors: told.errors + alone.errors + figures.errors + Math.max(0, figures.plants - stored)
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
  const read = (name: string) =>
    Number(new RegExp(`^plant_store_batch_rows_${name} (.+)$`, 'm').exec(page)?.[1])
  return { rows: read('sum'), batches: read('count') }
}
