/** The application: its plugins in the order in which a request meets them. Production and tests build the same one. */
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from './config.ts'
import { createBareApp } from './http/bare-app.ts'
import plantRepository from './plants/plugin.ts'
import plants from './plants/route.ts'
import schema from './plants/schema.ts'
import admin from './plugins/admin.ts'
import auth from './plugins/auth.ts'
import docs from './plugins/docs.ts'
import health from './plugins/health.ts'
import telemetry from './plugins/telemetry.ts'
import type { Tracing } from './tracing.ts'

/** Longer than balancers keep idle connections (AWS 60 s, Google 600 s): else they could send a request on one that closes. */
const keepAliveTimeout = 620_000

/** Builds the application. It becomes ready, and can listen, once the database serves. */
export async function buildApp(config: Config, logger: FastifyBaseLogger, tracing?: Tracing) {
  const { BASE_PATH: basePath, BODY_LIMIT_BYTES: bodyLimitBytes, bodyMemoryBytes, tokens, write } = config
  const { database: url, STARTUP_TIMEOUT_MS: startupTimeoutMs } = config
  const limits = {
    headersTimeout: config.headersTimeoutMs,
    requestTimeout: config.REQUEST_TIMEOUT_MS,
    maxConnections: config.MAX_CONNECTIONS,
    keepAliveTimeout
  }
  const app = await createBareApp(logger, limits, tracing?.requests)
  await app.register(schema)
  await app.register(auth, { tokens, perSecond: config.RATE_LIMIT })
  await app.register(health)
  await app.register(docs, { basePath, hasPage: config.DOCS === 'on' })
  await app.register(plantRepository, { url, startupTimeoutMs, write, tracing })
  await app.register(plants, { basePath, bodyLimitBytes, bodyMemoryBytes })
  await app.register(telemetry)
  app.rejectOtherMethods()
  await app.register(admin, { listen: config.metrics })
  return app
}
