/** The repository over its pool, and what watches the database while it is idle. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Databases } from '../database/pool.ts'
import { checkReadiness, probeWhileIdle } from '../database/readiness.ts'
import { statementLimitMs } from '../database/statement.ts'
import type { Tracing } from '../tracing/open-telemetry.ts'
import { createPlantMetrics } from './metrics.ts'
import { createPlantRepository, type Observer, type PlantRepository, type WriteLimits } from './repository.ts'
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
  /** Where plants are stored, in place of the database. */
  repository?: PlantRepository | undefined
}

/** For the probe of an outage, besides those of the lanes. */
const probeConnections = 1

/** Makes the repository, with the pool of its writes and probes. */
export function openRepository(
  databases: Databases,
  { write, tracing }: Pick<Options, 'write' | 'tracing'>,
  log: FastifyBaseLogger,
  observer: Observer
) {
  const size = write.lanes + probeConnections
  const database = databases.open({ size, limitMs: statementLimitMs(write.deadlineMs) })
  return { database, plants: createPlantRepository(database, write, log, observer, tracing) }
}

export default fp<Options>(
  async (app, { registry, repository, ...options }) => {
    if (repository) {
      app.decorate('plants', repository)
      return
    }
    const metrics = createPlantMetrics(registry)
    const { database, plants } = openRepository(app.databases, options, app.log, metrics)
    metrics.watch(options.write, () => plants.load)
    app.decorate('plants', plants)
    let endProbes = () => {}
    // Not earlier: until then, the start waits for the database and reports that.
    app.addHook('onListen', async () => {
      endProbes = probeWhileIdle(
        () => checkReadiness(database, selectRequired),
        () => plants.load.rows === 0 && !plants.load.databaseDown,
        plants.noteAway
      )
    })
    // The pools end later: hooks of onClose run from the last to the first.
    app.addHook('onClose', async () => {
      endProbes()
      await plants.close()
    })
  },
  { name: 'plants', dependencies: ['databases'] }
)
