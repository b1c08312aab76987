/** The repositories and, under them, the database connections' whole life. */
import type { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { createPool } from '../database/pool.ts'
import type { ConnectionOptions } from '../database/url.ts'
import type { Limits } from '../group-commit/types.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { createStorageMetrics } from './metrics.ts'
import { createPlantRepository, type PlantRepository } from './repository.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
  }
}

interface Options {
  registry: Registry
  connection: ConnectionOptions
  write: Limits
  tracing?: Tracing | undefined
}

/** A statement has a third of the deadline, so that a repeat on another connection is in time. */
const attemptsPerDeadline = 3
/** For the probe of an outage, beside the lanes. */
const probeConnections = 1

export default fp<Options>(
  async (app, { registry, connection, write, tracing }) => {
    // The pool of writes and probes. Reads would take the lanes' connections: they get a pool of their own.
    const database = createPool({
      connection,
      size: write.lanes + probeConnections,
      limitMs: Math.ceil(write.deadlineMs / attemptsPerDeadline),
      log: app.log
    })
    const storage = createStorageMetrics(registry)
    const plants = createPlantRepository(database, write, app.log, storage, tracing)
    storage.watch({ limits: write, load: plants.load, pool: database.state })
    app.decorate('plants', plants)
    app.addHook('onClose', async () => {
      await plants.close()
      await database.end()
    })
  },
  { name: 'storage' }
)
