/** `npm run bench:simulation`: calibrates the model of group commit, measures the service, and compares the two. */
import { readVersion } from './database.ts'
import { inLab } from './lab.ts'
import { findGenerator } from './load/http.ts'
import { describeMachine } from './machine.ts'
import { median } from './measure.ts'
import { readOptions } from './options.ts'
import { publish } from './report.ts'
import { cores, defaultLimits } from './simulation/calibrate.ts'
import { compare, judge, type Round } from './simulation/comparison.ts'
import { createForecast, mergeCommits, mergeCosts, mergePredictions } from './simulation/forecast.ts'
import type { Question } from './simulation/model.ts'
import { measureParts } from './simulation/parts.ts'
import { writePlot } from './simulation/plot.ts'
import { takeRounds } from './simulation/rounds.ts'
import {
  type Cell,
  formatAim,
  formatCommits,
  formatComparison,
  formatPredictions,
  formatSpread
} from './simulation/tables.ts'

const { isQuick, rounds, seconds, connections } = readOptions(
  { rounds: 30, seconds: 1, connections: [1, 8, 64, 256] },
  { rounds: 1, seconds: 1, connections: [1, 8, 64, 256] }
)
const simulatedSeconds = 4
/** One run of chance can be a rare one: what is not compared is the median of several. */
const seeds = [1, 2, 3, 4, 5]

await inLab(async (lab) => {
  const generator = await findGenerator()
  const { taken, exchange } = await takeRounds(lab, generator, { rounds, seconds, connections })
  const known = { cores, parts: await measureParts(), limits: defaultLimits }

  const compared = connections.map((): Round[] => [])
  for (const [round, samples] of taken.entries()) {
    const costs = samples.map(({ cost }) => cost)
    for (const [index, { service, earlier, commits, cost }] of samples.entries()) {
      const forecast = createForecast(known, costs, commits)
      const question = { connections: cost.connections, seconds: simulatedSeconds, seed: round }
      compared[index]?.push({
        measured: service,
        simulated: await forecast(question),
        earlierPlantsPerSecond: earlier.plantsPerSecond
      })
    }
  }
  const comparisons = connections.map((count, index) => compare(count, compared[index] as Round[]))

  const all = taken.flat()
  const commits = mergeCommits(all.map(({ commits }) => commits))
  const costs = connections.map((count) =>
    mergeCosts(all.map(({ cost }) => cost).filter((cost) => cost.connections === count))
  )
  const forecast = createForecast(known, costs, commits)
  const predict = async (
    line: string,
    column: string,
    question: Omit<Question, 'seconds'>
  ): Promise<Cell> => {
    const predictions = []
    for (const seed of seeds) predictions.push(await forecast({ ...question, seconds: 1, seed }))
    return { line, column, prediction: mergePredictions(predictions) }
  }
  const standbys = []
  const replicas = []
  for (const standbyMs of [0, 1, 2, 5, 10]) {
    for (const count of [64, 256]) {
      standbys.push(
        await predict(`${standbyMs} ms`, `${count} connections`, { connections: count, standbyMs })
      )
    }
  }
  for (const count of [1, 2, 4, 8, 16]) {
    for (const [column, connections, databaseCores] of [
      ['64 connections each, one core', 64, 1],
      ['256 connections each, one core', 256, 1],
      ['64 connections each, two cores', 64, 2]
    ] as const) {
      const question = { connections, apart: { replicas: count, databaseCores } }
      replicas.push(await predict(String(count), column, question))
    }
  }

  const middle = (of: (sample: (typeof all)[number]) => number) =>
    median(all.filter(({ cost }) => cost.connections === Math.max(...connections)).map(of))
  const { met, of } = judge(comparisons)
  const machine = describeMachine([await readVersion(lab.postgres.url('postgres')), generator.name])
  if (!isQuick) await writePlot(comparisons)
  await publish('simulation', {
    text: [
      `${machine}. Medians of ${rounds} rounds of ${seconds} s; ${simulatedSeconds} s simulated.`,
      formatComparison(comparisons),
      formatAim(comparisons),
      'The differences of the rounds, their median and between which quartiles half of them are:',
      formatSpread(comparisons),
      'What the model was told of a commit, each size alone:',
      formatCommits(commits),
      `Not measured: what the model says of commits that wait for a standby, from all rounds together (medians of ${seeds.length} runs of 1 s):`,
      formatPredictions('wait', standbys),
      'And in the same way of replicas, each on a machine of its own, before one PostgreSQL on another:',
      formatPredictions('replicas', replicas)
    ].join('\n\n'),
    data: {
      machine,
      rounds,
      seconds,
      bytes: {
        ...exchange,
        log: middle(({ bytes }) => bytes.log),
        table: middle(({ bytes }) => bytes.table)
      },
      rows: comparisons,
      parts: known.parts,
      costs,
      commits: commits.map(({ waitsMs, ...commit }) => ({ ...commit, waitMs: median(waitsMs) })),
      standbys,
      replicas
    },
    errors: all.reduce((sum, { errors }) => sum + errors, 0),
    isQuick
  })
  if (!isQuick && met < of) process.exitCode = 1
})
