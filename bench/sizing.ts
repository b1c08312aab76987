/** The formula of docs/capacity.md: what a number of creates a second needs, by what a plant costs. */

/** What one plant costs. */
export interface Costs {
  /** CPU of the service and of PostgreSQL, in µs. */
  readonly serviceUs: number
  readonly postgresUs: number
  readonly walBytes: number
  /** Table and index. */
  readonly diskBytes: number
}

/** What is needed. */
export interface Need {
  readonly replicas: number
  readonly postgresCores: number
  readonly sessions: number
  /** In MB/s. */
  readonly wal: number
  /** In TB, if the rate is held for a year. */
  readonly diskOfYear: number
}

/** Cores are planned to be this busy, so that there is room for peaks and for a checkpoint. */
const busy = 0.6
/** A replica more than the rate needs, for one that is restarted or lost. */
const spare = 1
/** What a replica opens at most (docs/running.md, "Sizing"). */
const sessionsOfReplica = 11
const secondsOfYear = 365 * 86_400

/** Returns what this many creates a second need. */
export function sizeFor(rate: number, costs: Costs): Need {
  const replicas = Math.ceil((rate * costs.serviceUs) / 1e6 / busy) + spare
  return {
    replicas,
    postgresCores: (rate * costs.postgresUs) / 1e6 / busy,
    sessions: replicas * sessionsOfReplica,
    wal: (rate * costs.walBytes) / 1e6,
    diskOfYear: (rate * secondsOfYear * costs.diskBytes) / 1e12
  }
}
