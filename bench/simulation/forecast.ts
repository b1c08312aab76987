/** From what was measured to what the model predicts, for any number of connections. */
import { median } from '../measure.ts'
import type { Commit } from './database.ts'
import { type Parameters, type Prediction, type Question, simulate } from './model.ts'
import { findNeighbours } from './neighbours.ts'

/** What a request costs apart from its commit, in ms of CPU time, at one number of connections: more at once cost less each. */
export interface RequestCost {
  connections: number
  requestMs: number
  generatorMs: number
}

/** Gives the medians of the costs at one number of connections. */
export function mergeCosts(costs: RequestCost[]): RequestCost {
  const of = (figure: keyof RequestCost) => median(costs.map((cost) => cost[figure]))
  return {
    connections: of('connections'),
    requestMs: of('requestMs'),
    generatorMs: of('generatorMs')
  }
}

/** Gives the medians of the CPU times of several calibrations, and all their waits. */
export function mergeCommits(calibrations: Commit[][]): Commit[] {
  return (calibrations[0] ?? []).map(({ rows }, index) => {
    const same = calibrations.map((commits) => commits[index] as Commit)
    return {
      rows,
      serverMs: median(same.map(({ serverMs }) => serverMs)),
      databaseMs: median(same.map(({ databaseMs }) => databaseMs)),
      waitsMs: same.flatMap(({ waitsMs }) => waitsMs)
    }
  })
}

/** Gives the medians of several predictions. */
export function mergePredictions(predictions: Prediction[]): Prediction {
  const of = (figure: keyof Prediction) => median(predictions.map((prediction) => prediction[figure]))
  return { plantsPerSecond: of('plantsPerSecond'), p50Ms: of('p50Ms'), rowsPerBatch: of('rowsPerBatch') }
}

/** What the model knows of a machine in all that is asked of it. */
export type Known = Pick<Parameters, 'cores' | 'parts' | 'limits'>

/** Makes what answers questions, from what requests cost, the fewest connections first, and what commits take. */
export function createForecast(known: Known, costs: RequestCost[], commits: Commit[]) {
  return (question: Question): Promise<Prediction> =>
    simulate({ ...known, ...costAt(costs, question.connections), commits }, question)
}

/** Between two numbers of connections that were measured, by their logarithms. */
function costAt(costs: RequestCost[], connections: number) {
  const { below, above, part } = findNeighbours(
    costs,
    (cost) => Math.log(cost.connections),
    Math.log(connections)
  )
  const between = (figure: 'requestMs' | 'generatorMs') =>
    below[figure] + part * (above[figure] - below[figure])
  return { requestMs: between('requestMs'), generatorMs: between('generatorMs') }
}
