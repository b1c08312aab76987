/** The model: replicas of the service and their PostgreSQL in virtual time, on machines of threads and cores. */
import type { Limits } from '../../src/group-commit/types.ts'
import { createCores } from './cores.ts'
import { createDatabase } from './database.ts'
import { createEvents } from './events.ts'
import { type Costs, startReplica } from './replica.ts'

/** Everything that the model knows of a machine. */
export interface Parameters extends Costs {
  cores: number
  limits: Limits
}

/** What is asked of the model. */
export interface Question {
  /** Of each replica; each connection sends its next request when it has its answer. */
  connections: number
  /** Simulated, behind a warm-up. */
  seconds: number
  warmUpSeconds?: number
  /** How long each commit waits for a standby, in ms. */
  standbyMs?: number
  /**
   * The replicas, each with its load generator on a machine of its own, and the cores of PostgreSQL's. Without it there is
   * one machine for one replica and all the rest.
   */
  apart?: { replicas: number; databaseCores: number }
  /** Chance is the same for the same seed. */
  seed?: number
}

/** What the model predicts, for all replicas together. */
export interface Prediction {
  plantsPerSecond: number
  p50Ms: number
  rowsPerBatch: number
}

/** Answers a question. */
export async function simulate(
  { cores, limits, ...costs }: Parameters,
  { connections, seconds, warmUpSeconds = 0.2, standbyMs = 0, apart, seed = 1 }: Question
): Promise<Prediction> {
  const events = createEvents(createRandom(seed))
  const createThread = createCores(events, cores)
  const connect = createDatabase(
    events,
    apart ? createCores(events, apart.databaseCores) : createThread,
    standbyMs
  )
  const latenciesMs: number[] = []
  let batches = 0
  let isWarm = false
  for (let replica = 0; replica < (apart?.replicas ?? 1); replica++) {
    startReplica(costs, limits, connections, {
      events,
      createThread: apart ? createCores(events, cores) : createThread,
      connect,
      onAnswer(latencyMs) {
        if (isWarm) latenciesMs.push(latencyMs)
      },
      onBatch() {
        if (isWarm) batches++
      }
    })
  }
  await events.runTo(warmUpSeconds * 1000)
  isWarm = true
  await events.runTo((warmUpSeconds + seconds) * 1000)
  latenciesMs.sort((a, b) => a - b)
  return {
    plantsPerSecond: latenciesMs.length / seconds,
    p50Ms: latenciesMs[latenciesMs.length >> 1] ?? Number.NaN,
    rowsPerBatch: latenciesMs.length / batches
  }
}

/** Gives the same chance for the same seed: mulberry32, by Tommy Ettinger. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
