/** The application's repository of plants. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../database/database.ts'
import { lanes } from '../group-commit/table.ts'
import type { Tracing } from '../tracing.ts'
import { createPlantMetrics } from './metrics.ts'
import {
  createPlantRepository,
  type MakeRepository,
  type Observer,
  type PlantRepository,
  type WriteLimits
} from './repository.ts'
import { createSqlStore } from './sql-store.ts'

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

/** Returns how many sessions a replica has at most: one for each lane, and one for probes, which must not wait for a lane. */
export const countSessions = (writeLanes: number): number =>
  Object.values(lanes).reduce((sum, count) => sum + count, writeLanes + 1)

/** Makes the repository of the database's plants. */
export const openRepository = (
  database: Database,
  { write, tracing }: Pick<Options, 'write' | 'tracing'>,
  log: FastifyBaseLogger,
  observer: Observer
): PlantRepository =>
  createPlantRepository(createSqlStore(database, write.deadlineMs), write, log, observer, tracing)

export default fp<Options>(
  async (app, { registry, repository, ...options }) => {
    const metrics = createPlantMetrics(registry)
    const plants = repository?.(app.log, metrics) ?? openRepository(app.database, options, app.log, metrics)
    metrics.watch(options.write, () => plants.load)
    app.decorate('plants', plants)
    // Not earlier: before it listens, the service waits for the database and reports that by itself.
    app.addHook('onListen', async () => plants.watch())
    // Hooks of onClose run from the last to the first, so the sessions end after the repository.
    app.addHook('onClose', () => plants.close())
  },
  { name: 'plant-repository', dependencies: ['database'] }
)
