/** From what was measured to what the model predicts, for any number of connections. */
import { median } from '../measure.ts'
import { type Commit, type Parameters, type Prediction, simulate } from './model.ts'

/** What a request costs apart from its commit, at one number of connections: more at once cost less each. */
export interface RequestCost {
  connections: number
  requestMs: number
  generatorMs: number
  /** How much longer than its CPU time work takes, because the host takes the cores for others; at least 1. */
  stretch: number
  /** From one process to another, beside the CPU times. */
  hopMs: number
}

/** Gives the medians of the costs at one number of connections. */
export function mergeCosts(costs: RequestCost[]): RequestCost {
  const of = (figure: keyof RequestCost) => median(costs.map((cost) => cost[figure]))
  return {
    connections: of('connections'),
    requestMs: of('requestMs'),
    generatorMs: of('generatorMs'),
    stretch: of('stretch'),
    hopMs: of('hopMs')
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

/** A load: how many connections for how long, and by how much every commit is longer, in ms. */
interface Load {
  connections: number
  seconds: number
  extraMs?: number
}

/** Makes what predicts the service under a load, from what requests cost and what commits take. */
export function createForecast(known: Pick<Parameters, 'cores' | 'parts' | 'limits'>, costs: RequestCost[]) {
  const stretched = costs.map(({ stretch, ...cost }) => ({
    ...cost,
    requestMs: cost.requestMs * stretch,
    generatorMs: cost.generatorMs * stretch
  }))
  return (commits: Commit[], { connections, seconds, extraMs = 0 }: Load): Promise<Prediction> => {
    const cost = costAt(stretched, connections)
    const longer = commits.map((commit) => ({ ...commit, waitsMs: commit.waitsMs.map((ms) => ms + extraMs) }))
    const parameters = { ...known, ...cost, commits: longer }
    return simulate(parameters, { connections, seconds })
  }
}

/** Between two numbers of connections that were measured, by their logarithms. */
function costAt(costs: Omit<RequestCost, 'stretch'>[], connections: number) {
  const above = costs.find((cost) => cost.connections >= connections) ?? costs.at(-1)
  const below = costs.findLast((cost) => cost.connections <= connections) ?? above
  if (above === undefined || below === undefined) throw new Error('there are no costs of requests')
  const part =
    above === below
      ? 0
      : Math.log(connections / below.connections) / Math.log(above.connections / below.connections)
  const between = (figure: 'requestMs' | 'generatorMs' | 'hopMs') =>
    below[figure] + part * (above[figure] - below[figure])
  return {
    requestMs: between('requestMs'),
    generatorMs: between('generatorMs'),
    hopMs: between('hopMs')
  }
}
