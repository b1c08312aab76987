/** The application's repository of plants, with a pool of its own and the probe of the database while it is idle. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../database/pool.ts'
import { statementLimitMs } from '../database/statement.ts'
import type { Tracing } from '../tracing.ts'
import { createPlantMetrics } from './metrics.ts'
import { probeDatabase, probeWhileIdle } from './probe.ts'
import {
  createPlantRepository,
  type MakeRepository,
  type Observer,
  type PlantRepository,
  type WriteLimits
} from './repository.ts'
import { createSqlStore } from './sql-store.ts'
import { selectRequired } from './statements.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

interface Options {
  registry: Registry
  write: WriteLimits
  tracing?: Tracing | undefined
  /** Makes what stores plants in place of the database. */
  repository?: MakeRepository | undefined
}

/** Sessions for probes, besides one for each lane: a probe must not wait for a lane. */
const probeSessions = 1

/** Makes the repository, and the pool of its writes and probes, which ends with the database. */
export function openRepository(
  database: Database,
  { write, tracing }: Pick<Options, 'write' | 'tracing'>,
  log: FastifyBaseLogger,
  observer: Observer
) {
  const size = write.lanes + probeSessions
  const pool = database.openPool({ size, limitMs: statementLimitMs(write.deadlineMs) })
  const plants = createPlantRepository(createSqlStore(pool), write, log, observer, tracing)
  let stopProbes = () => {}
  return {
    pool,
    plants,
    /** Probes the database while it is idle, until `close`. */
    startProbes() {
      const probe = () => probeDatabase(pool, selectRequired)
      const isIdle = () => plants.load.rows === 0 && !plants.load.databaseDown
      stopProbes = probeWhileIdle(probe, isIdle, plants.noteAway)
    },
    /** Resolves when every create has its response. */
    close() {
      stopProbes()
      return plants.close()
    }
  }
}

export default fp<Options>(
  async (app, { registry, repository, ...options }) => {
    const metrics = createPlantMetrics(registry)
    const given = repository?.(app.log, metrics)
    const { plants, startProbes, close } = given
      ? { plants: given, startProbes() {}, close: () => given.close() }
      : openRepository(app.database, options, app.log, metrics)
    metrics.watch(options.write, () => plants.load)
    app.decorate('plants', plants)
    // Not earlier: before it listens, the service waits for the database and reports that by itself.
    app.addHook('onListen', async () => startProbes())
    // Hooks of onClose run from the last to the first, so the pool ends after the repository.
    app.addHook('onClose', close)
  },
  { name: 'plant-repository', dependencies: ['database'] }
)
