/** `npm run bench:simulation`: calibrates the model of group commit, measures the service, and compares the two. */
import { setTimeout as sleep } from 'node:timers/promises'
import { checkpoint, clear, countPlants, readLogBytes, readTableBytes, readVersion } from './database.ts'
import { inLab } from './lab.ts'
import { findGenerator } from './load/http.ts'
import { describeMachine } from './machine.ts'
import { measure, median } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'
import {
  cores,
  defaultLimits,
  measureCommits,
  measureExchange,
  measureQueue
} from './simulation/calibrate.ts'
import { createForecast, mergeCommits, type RequestCost } from './simulation/forecast.ts'
import { heldMs } from './simulation/held.ts'
import type { Commit } from './simulation/model.ts'
import { writePlot } from './simulation/plot.ts'
import {
  type Comparison,
  compare,
  formatAim,
  formatCommits,
  formatComparison,
  formatLatencies
} from './simulation/tables.ts'
import { ownCpuUs } from './usage.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 11, seconds: 2, connections: [1, 8, 64, 256] },
  { rounds: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const commitSeconds = 0.4
const simulatedSeconds = 4
const extraMs = [0, 1, 2, 5, 10]
/** With more, batches are large, and answers that leave together cost less than those that leave one by one. */
const mostAlone = 8
const generator = await findGenerator()

await inLab(async (lab) => {
  const postgres = lab.postgres.process.pid as number
  const url = await lab.createDatabase('plants')
  const service = await lab.startServer('service', url)
  const ceiling = await lab.startServer('ceiling', url)
  const held = await lab.startServer('held', url)
  for (const server of [service, ceiling, held])
    await generator.load(server.url, { connections: 64, seconds: 3 })

  /** Loads a server on an empty table; adds the generator's CPU time and the bytes of the log for each plant. */
  async function load(server: typeof service, connections: number) {
    await generator.load(server.url, { connections, seconds: 1 })
    await server.clearLog()
    await sleep(250)
    await clear(url)
    await checkpoint(url)
    const logBytes = await readLogBytes(url)
    const before = ownCpuUs()
    const figures = await measure({ postgres, server: server.pid }, () =>
      generator.load(server.url, { connections, seconds })
    )
    return {
      ...figures,
      generatorMs: (ownCpuUs() - before) / 1000 / figures.plants,
      logBytes: ((await readLogBytes(url)) - logBytes) / figures.plants
    }
  }

  type Load = Awaited<ReturnType<typeof load>>
  const taken = connections.map((connections) => ({
    connections,
    service: [] as Load[],
    free: [] as Load[],
    tableBytes: [] as number[]
  }))
  const calibrations: Commit[][] = []
  for (let round = 1; round <= rounds; round++) {
    await clear(url)
    await checkpoint(url)
    calibrations.push(await measureCommits(url, postgres, commitSeconds))
    for (const { connections, ...results } of taken) {
      results.free.push(await load(connections > mostAlone ? held : ceiling, connections))
      const figures = await load(service, connections)
      results.service.push(figures)
      const stored = await countPlants(url)
      figures.errors += Math.max(0, figures.plants - stored)
      results.tableBytes.push((await readTableBytes(url)) / stored)
      const rate = Math.round(figures.plantsPerSecond)
      process.stdout.write(`round ${round}, ${connections} connections: ${rate} plants/s\n`)
    }
  }

  const limits = defaultLimits(url)
  const queueMs = await measureQueue(limits)
  const of = (loads: Load[], figure: keyof Load) => median(loads.map((one) => one[figure]))
  const costOf = (connections: number, free: Load[]): RequestCost => ({
    connections,
    heldMs: connections > mostAlone ? heldMs : 0,
    requestMs: of(free, 'serverCpuUs') / 1000,
    generatorMs: of(free, 'generatorMs'),
    plantsPerSecond: of(free, 'plantsPerSecond')
  })
  const known = { cores, queueMs, limits }
  const forecasts = await Promise.all(
    calibrations.map((commits, round) =>
      createForecast(
        { ...known, commits },
        taken.map(({ connections, free }) => costOf(connections, [free[round] as Load]))
      )
    )
  )
  const comparisons: Comparison[] = []
  for (const { connections, service } of taken) {
    const compared = []
    for (const [round, measured] of service.entries()) {
      const forecast = forecasts[round] as (typeof forecasts)[number]
      compared.push({ measured, simulated: await forecast(connections, simulatedSeconds) })
    }
    comparisons.push(compare(connections, compared))
  }
  const commits = mergeCommits(calibrations)
  const costs = taken.map(({ connections, free }) => costOf(connections, free))
  const forecast = await createForecast({ ...known, commits }, costs)
  const latencies = []
  for (const extra of extraMs) {
    for (const count of [64, 256, 1024]) {
      latencies.push({
        extraMs: extra,
        connections: count,
        ...(await forecast(count, simulatedSeconds, extra))
      })
    }
  }
  const line = []
  for (let count = 1; count <= Math.max(...connections); count *= 2) {
    line.push({ connections: count, ...(await forecast(count, simulatedSeconds)) })
  }
  const machine = describeMachine([await readVersion(lab.postgres.url('postgres')), generator.name])
  const most = taken.at(-1)
  const exchange = await measureExchange(service.url)
  const bytes = {
    ...exchange,
    log: of(most?.service ?? [], 'logBytes'),
    table: median(most?.tableBytes ?? [])
  }
  if (!isQuick) await writePlot(comparisons, line)
  await publish('simulation', {
    text: [
      `${machine}. Medians of ${rounds} rounds of ${seconds} s; ${simulatedSeconds} s simulated.`,
      formatComparison(comparisons),
      formatAim(comparisons),
      'What the model was told of a commit, each size alone:',
      formatCommits(commits),
      'What the model says of a commit that takes longer, such as one that waits for a standby:',
      formatLatencies(latencies)
    ].join('\n\n'),
    data: {
      machine,
      rounds,
      seconds,
      bytes,
      rows: comparisons,
      costs,
      commits: commits.map(({ waitsMs, ...commit }) => ({ ...commit, waitMs: median(waitsMs) })),
      latencies
    },
    errors: taken
      .flatMap((one) => [...one.service, ...one.free])
      .reduce((sum, { errors }) => sum + errors, 0),
    isQuick
  })
})
