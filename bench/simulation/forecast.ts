/** From what was measured to what the model predicts, for any number of connections. */
import { median } from '../measure.ts'
import { type Commit, type Parameters, type Prediction, simulate } from './model.ts'

/** What a request costs without storage, at one number of connections: more at once cost less each. */
export interface RequestCost {
  connections: number
  /** How long the storage held each batch, in ms; 0 where it answered each request at once. */
  heldMs: number
  requestMs: number
  generatorMs: number
  plantsPerSecond: number
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

const trialSeconds = 1
/** Where the storage is waited for, twice the CPU is less than twice the time: the stretch is found step by step. */
const trials = 4

/**
 * Makes what predicts the service under a number of connections, with every commit longer by `extraMs`. The model of a
 * service without storage must do as many requests as the one that was measured: what it does more, the machine has
 * kept from the processes for others, and all times of requests are longer by as much.
 */
export async function createForecast(
  known: Pick<Parameters, 'cores' | 'queueMs' | 'commits' | 'limits'>,
  measured: RequestCost[]
) {
  const [alone] = measured
  if (alone === undefined) throw new Error('there are no costs of requests')
  // One after the other: what is neither the server's nor the generator's time is on the way, there and back.
  const roundTripMs = (alone.connections * 1000) / alone.plantsPerSecond
  const hopMs = Math.max(0, (roundTripMs - alone.requestMs - alone.generatorMs) / 2)
  const costs: RequestCost[] = []
  for (const cost of measured) {
    const { connections, heldMs } = cost
    const commits = [{ rows: 1, serverMs: 0, databaseMs: 0, waitsMs: [heldMs] }]
    // What group commit costs is in the figure of a server that has it.
    const free = { ...known, hopMs, queueMs: 0, commits }
    let stretch = 1
    for (let trial = 0; trial < trials; trial++) {
      const stretched = { requestMs: cost.requestMs * stretch, generatorMs: cost.generatorMs * stretch }
      const { plantsPerSecond } = await simulate(
        { ...free, ...stretched },
        { connections, seconds: trialSeconds }
      )
      stretch *= plantsPerSecond / cost.plantsPerSecond
    }
    const requestMs = cost.requestMs * stretch - (heldMs > 0 ? known.queueMs : 0)
    costs.push({ ...cost, requestMs, generatorMs: cost.generatorMs * stretch })
  }
  return (connections: number, seconds: number, extraMs = 0): Promise<Prediction> => {
    const { requestMs, generatorMs } = costAt(costs, connections)
    const commits = known.commits.map((commit) => ({
      ...commit,
      waitsMs: commit.waitsMs.map((ms) => ms + extraMs)
    }))
    return simulate({ ...known, commits, requestMs, generatorMs, hopMs }, { connections, seconds })
  }
}

/** Between two numbers of connections that were measured, by their logarithms. */
function costAt(costs: RequestCost[], connections: number) {
  const above = costs.find((cost) => cost.connections >= connections) ?? (costs.at(-1) as RequestCost)
  const below = costs.findLast((cost) => cost.connections <= connections) ?? above
  const part =
    above === below
      ? 0
      : Math.log(connections / below.connections) / Math.log(above.connections / below.connections)
  const between = (figure: 'requestMs' | 'generatorMs') =>
    below[figure] + part * (above[figure] - below[figure])
  return { requestMs: between('requestMs'), generatorMs: between('generatorMs') }
}
