/**
 * The application: its plugins, in the order in which they need one another. Production and tests
 * build the same application. A process can build any number of them.
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from './config.ts'
import { createBareApp } from './http/bare-app.ts'
import metrics from './metrics.ts'
import plantRepository from './plants/plugin.ts'
import type { PlantStore } from './plants/repository.ts'
import plants from './plants/route.ts'
import schema from './plants/schema.ts'
import admin from './plugins/admin.ts'
import auth from './plugins/auth.ts'
import docs from './plugins/docs.ts'
import health from './plugins/health.ts'
import telemetry from './plugins/telemetry.ts'
import type { Tracing } from './tracing.ts'

interface Parts {
  logger: FastifyBaseLogger
  /** The store for plants, if it is not the configuration's database. */
  store?: PlantStore | undefined
  tracing?: Tracing | undefined
}

/**
 * Builds the application. It becomes ready, and can then listen, once its store can be used.
 * Rejects with a StartupFault if it has no store.
 */
export async function buildApp(config: Config, { logger, store, tracing }: Parts) {
  const app = await createBareApp(logger, config.connectionLimits, tracing?.requests)
  await app.register(metrics)
  await app.register(schema)
  await app.register(auth, config)
  await app.register(health)
  await app.register(docs, config)
  await app.register(plantRepository, { ...config, store, tracing })
  await app.register(plants, config)
  await app.register(telemetry)
  app.rejectOtherMethods()
  await app.register(admin, config)
  return app
}
