/** The formula of docs/capacity.md: what a number of creates a second needs, by what a plant costs. */
import type { Ids } from './table.ts'

/** What is asked for. */
export interface Demand {
  /** The highest number of creates a second. */
  readonly peak: number
  /** All plants that are ever stored. */
  readonly plants: number
}

/** What one plant costs. */
export interface Costs {
  readonly ids: Ids
  /** CPU of the service and of PostgreSQL, in µs. */
  readonly serviceUs: number
  readonly postgresUs: number
  /** WAL, with the pages that were written whole into it, and how many these were. */
  readonly walBytes: number
  readonly fullPages: number
  readonly tableBytes: number
  readonly indexBytes: number
}

/** What is needed. */
export interface Need {
  readonly replicas: number
  readonly postgresCores: number
  readonly sessions: number
  /** In MB/s, at the peak. */
  readonly wal: number
  /** Of table and index, in TB. */
  readonly disk: number
}

/** The µs of a core in a second that are planned: 60 %, so that there is room for a checkpoint. */
const usOfCore = 600_000
/** A replica more than the rate needs, for one that is restarted or lost. */
const spare = 1
/** What a replica opens at most (docs/running.md, "Sizing"). */
const sessionsOfReplica = 11
/** The stack's checkpoint_timeout. */
const checkpointSeconds = 15 * 60
const pageBytes = 8_192
/** What a page of an index of random ids takes of the WAL, which leaves the page's empty room out. */
const wholePageBytes = 5_800

/** Returns what this many creates a second and plants need. */
export function sizeFor(demand: Demand, costs: Costs): Need {
  const { peak, plants } = demand
  const replicas = Math.ceil((peak * costs.serviceUs) / usOfCore) + spare
  return {
    replicas,
    postgresCores: Math.ceil((peak * costs.postgresUs) / usOfCore),
    sessions: replicas * sessionsOfReplica,
    wal: (peak * walBytesFor(demand, costs)) / 1e6,
    disk: (plants * (costs.tableBytes + costs.indexBytes)) / 1e12
  }
}

/**
 * Returns the WAL of a plant when all plants are stored. With random ids, each plant writes a whole
 * page, unless the index has fewer pages than plants come between two checkpoints. A trial is short
 * and its index small, so it writes fewer.
 */
function walBytesFor({ peak, plants }: Demand, costs: Costs): number {
  if (costs.ids === 'growing') return costs.walBytes
  const indexPages = (plants * costs.indexBytes) / pageBytes
  const fullPages = Math.min(1, indexPages / (peak * checkpointSeconds))
  return costs.walBytes + wholePageBytes * (fullPages - costs.fullPages)
}
