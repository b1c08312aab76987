/** The application: registrations in the order in which a request meets them. Production and tests build the same one. */
import { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import admin from './admin/admin.ts'
import auth from './auth/auth.ts'
import rateLimit from './auth/rate-limit.ts'
import type { Config } from './config/config.ts'
import backpressure from './connections/backpressure.ts'
import connections from './connections/connections.ts'
import shutdown from './connections/shutdown.ts'
import databases from './database/databases.ts'
import admission from './http/admission.ts'
import errorHandler from './http/error-handler.ts'
import methods, { noPath } from './http/methods.ts'
import probes from './http/probes.ts'
import protocol from './http/protocol.ts'
import requestLog from './http/request-log.ts'
import requestMetrics from './http/request-metrics.ts'
import responseHeaders from './http/response-headers.ts'
import { createServer } from './http/server.ts'
import openapi from './openapi/page.ts'
import repository from './plants/plugin.ts'
import { databaseChecks } from './plants/requirements.ts'
import plants from './plants/route.ts'
import schema, { ajv } from './plants/schema.ts'
import type { Tracing } from './tracing/tracing.ts'

/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Longer than balancers keep idle connections (AWS 60 s, Google 600 s): else their next request could meet one that closes. */
const idleMs = 620_000

/** Builds the application; it listens to nothing yet and connects to the database with its first request. */
export async function buildApp(config: Config, logger: FastifyBaseLogger, tracing?: Tracing) {
  // Only OpenMetrics has exemplars.
  const { OPENMETRICS_CONTENT_TYPE, PROMETHEUS_CONTENT_TYPE } = Registry
  const registry = new Registry(tracing ? OPENMETRICS_CONTENT_TYPE : PROMETHEUS_CONTENT_TYPE)
  const app = createServer(logger, {
    bodyLimit: config.BODY_LIMIT_BYTES,
    ajv,
    keepAliveTimeout: idleMs,
    // The router would take OPTIONS * for the root.
    rewriteUrl: ({ url = '' }) => (url === '*' ? noPath : url.replace(absoluteForm, ''))
  })
  const maxConnections = config.MAX_CONNECTIONS
  if (tracing) await app.register(tracing.requests)
  await app.register(responseHeaders)
  await app.register(errorHandler)
  await app.register(connections, {
    headersTimeoutMs: config.HEADERS_TIMEOUT_MS,
    requestTimeoutMs: config.REQUEST_TIMEOUT_MS,
    maxConnections,
    onRejected: ({ name }) => app.countFailure(name)
  })
  await app.register(protocol)
  await app.register(shutdown)
  await app.register(methods)
  await app.register(requestMetrics, { registry, maxConnections })
  await app.register(backpressure, { registry })
  await app.register(schema)
  await app.register(auth, { registry, tokens: config.tokens, file: config.tokenFile })
  await app.register(rateLimit, { perSecond: config.RATE_LIMIT })
  const { database: connection, databaseFile: file, write } = config
  await app.register(databases, { registry, connection, file, checks: databaseChecks })
  await app.register(repository, { registry, write, tracing })
  await app.register(admission, { registry, bodyMemoryBytes: config.BODY_MEMORY_BYTES })
  await app.register(probes)
  await app.register(openapi, { basePath: config.BASE_PATH, docs: config.DOCS === 'on' })
  await app.register(plants, { prefix: config.BASE_PATH })
  // Register last: if logging throws, everything else has been released.
  await app.register(requestLog)
  app.rejectOtherMethods()
  await app.register(admin, { registry, listen: config.metrics })
  return app
}
