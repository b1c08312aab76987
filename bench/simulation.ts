/** `npm run bench:simulation`: calibrates the model of group commit, measures the service, and compares the two. */
import { readVersion } from './database.ts'
import { inLab } from './lab.ts'
import { findGenerator } from './load/http.ts'
import { describeMachine } from './machine.ts'
import { median } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'
import { cores, defaultLimits } from './simulation/calibrate.ts'
import { createForecast, mergeCommits, mergeCosts } from './simulation/forecast.ts'
import { measureParts } from './simulation/parts.ts'
import { writePlot } from './simulation/plot.ts'
import { type Sample, takeRounds } from './simulation/rounds.ts'
import { compare, formatAim, formatCommits, formatComparison, formatLatencies } from './simulation/tables.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 30, seconds: 1, connections: [1, 8, 64, 256] },
  { rounds: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const simulatedSeconds = 4
const extraMs = [0, 1, 2, 5, 10]

await inLab(async (lab) => {
  const generator = await findGenerator()
  const { taken, exchange } = await takeRounds(lab, generator, { rounds, seconds, connections })
  const limits = defaultLimits(lab.postgres.url('plants'))
  const known = { cores, parts: await measureParts(), limits }

  const compared = connections.map(() => [] as Parameters<typeof compare>[1])
  for (const samples of taken) {
    const forecast = createForecast(
      known,
      samples.map(({ cost }) => cost)
    )
    for (const [index, { service, commits, cost }] of samples.entries()) {
      const load = { connections: cost.connections, seconds: simulatedSeconds }
      compared[index]?.push({ measured: service, simulated: await forecast(commits, load) })
    }
  }
  const comparisons = connections.map((count, index) => compare(count, compared[index] ?? []))

  const all = taken.flat()
  const commits = mergeCommits(all.map(({ commits }) => commits))
  const costs = connections.map((_, index) =>
    mergeCosts(taken.map((samples) => (samples[index] as Sample).cost))
  )
  const forecast = createForecast(known, costs)
  const predict = async (connections: number, extraMs = 0) => ({
    connections,
    ...(await forecast(commits, { connections, seconds: simulatedSeconds, extraMs }))
  })
  const latencies = []
  for (const extra of extraMs) {
    for (const count of [64, 256, 1024]) latencies.push({ extraMs: extra, ...(await predict(count, extra)) })
  }
  const line = []
  for (let count = 1; count <= Math.max(...connections); count *= 2) line.push(await predict(count))

  const most = taken.map((samples) => (samples.at(-1) as Sample).bytes)
  const bytesOf = (kind: keyof Sample['bytes']) => median(most.map((bytes) => bytes[kind]))
  const machine = describeMachine([await readVersion(lab.postgres.url('postgres')), generator.name])
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
      bytes: {
        ...exchange,
        log: bytesOf('log'),
        table: bytesOf('table')
      },
      rows: comparisons,
      parts: known.parts,
      costs,
      commits: commits.map(({ waitsMs, ...commit }) => ({ ...commit, waitMs: median(waitsMs) })),
      latencies
    },
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    isQuick
  })
})
