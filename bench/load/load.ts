/** A load, and its result. */
import type { Ids } from '../plant.ts'

/** What to load a server with. */
export interface Load {
  /** Each sends one request at a time. */
  connections: number
  seconds: number
  /** The range of the plants' ids; int64 by default. */
  ids?: Ids
}

/** What a load saw. */
export interface LoadResult {
  /** How many creates were acknowledged. */
  plants: number
  /** How long it took, in seconds. */
  seconds: number
  p50Ms: number
  p99Ms: number
  /** Responses other than 200, time-outs and failed connections. */
  errors: number
}
