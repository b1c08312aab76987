/** The model's predictions beside what was measured. */
import { median } from '../measure.ts'
import { mergePredictions } from './forecast.ts'
import type { Prediction } from './model.ts'

/** One round at one number of connections. */
export interface Round {
  measured: Prediction
  simulated: Prediction
  /** The rate of the earlier load, which the model's costs are from: what a forecast without a model would say. */
  earlierPlantsPerSecond: number
}

/** What was measured and what the model says, at one number of connections. */
export interface Comparison {
  connections: number
  measured: Prediction
  simulated: Prediction
  /** How far each round's forecasts are off, as a part of what was measured. */
  offs: { plantsPerSecond: number[]; p50Ms: number[]; earlierPlantsPerSecond: number[] }
  /** The medians of the model's. */
  off: { plantsPerSecond: number; p50Ms: number }
}

/** How far the model may be off. */
export const aim = 0.15

/**
 * Makes the comparison from what was measured and simulated in each round. The differences are taken within a round,
 * where the machine was the same, and their medians given, as of all figures.
 */
export function compare(connections: number, rounds: Round[]): Comparison {
  const off = (forecast: number, measured: number) => Math.round((forecast / measured - 1) * 1000) / 1000
  const offs = {
    plantsPerSecond: rounds.map(({ measured, simulated }) =>
      off(simulated.plantsPerSecond, measured.plantsPerSecond)
    ),
    p50Ms: rounds.map(({ measured, simulated }) => off(simulated.p50Ms, measured.p50Ms)),
    earlierPlantsPerSecond: rounds.map(({ measured, earlierPlantsPerSecond }) =>
      off(earlierPlantsPerSecond, measured.plantsPerSecond)
    )
  }
  return {
    connections,
    measured: mergePredictions(rounds.map(({ measured }) => measured)),
    simulated: mergePredictions(rounds.map(({ simulated }) => simulated)),
    offs,
    off: { plantsPerSecond: median(offs.plantsPerSecond), p50Ms: median(offs.p50Ms) }
  }
}

/** Counts the figures of which the median is within the aim, and tells how far the worst is off. */
export function judge(comparisons: Comparison[]): { met: number; of: number; worst: number } {
  const offs = comparisons.flatMap(({ off }) => [Math.abs(off.plantsPerSecond), Math.abs(off.p50Ms)])
  return { met: offs.filter((off) => off <= aim).length, of: offs.length, worst: Math.max(...offs) }
}

/** Gives the lower and the upper quartile. */
export function quartiles(values: number[]): [number, number] {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => sorted[Math.round((sorted.length - 1) * part)] ?? Number.NaN
  return [at(0.25), at(0.75)]
}
