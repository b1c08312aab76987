/** The application: registrations in the order in which a request meets them. Production and tests build the same one. */
import { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import admin from './admin/admin.ts'
import { addLiveness, addReadiness } from './admin/probes.ts'
import auth from './auth/auth.ts'
import type { Config } from './config/config.ts'
import database from './database/plugin.ts'
import addOperation from './http/add-operation.ts'
import { createBareApp } from './http/bare-app.ts'
import openapi from './openapi/openapi.ts'
import plantRepository from './plants/plugin.ts'
import type { MakeRepository } from './plants/repository.ts'
import plants from './plants/route.ts'
import schema, { ajv } from './plants/schema.ts'
import { databaseChecks } from './plants/statements.ts'
import shutdown from './shutdown.ts'
import telemetry from './telemetry/requests.ts'
import type { Tracing } from './tracing/open-telemetry.ts'

/** Longer than balancers keep idle connections (AWS 60 s, Google 600 s): else they could send a request on one that closes. */
const keepAliveTimeout = 620_000

/**
 * Builds the application. It does not listen yet, and connects to the database with its first request.
 * `repository` makes what stores plants in place of the database.
 */
export async function buildApp(
  config: Config,
  logger: FastifyBaseLogger,
  { tracing, repository }: { tracing?: Tracing | undefined; repository?: MakeRepository } = {}
) {
  const registry = new Registry()
  const { BASE_PATH: basePath } = config
  const app = await createBareApp(logger, {
    first: tracing?.requests,
    headersTimeoutMs: config.HEADERS_TIMEOUT_MS,
    requestTimeoutMs: config.REQUEST_TIMEOUT_MS,
    maxConnections: config.MAX_CONNECTIONS,
    keepAliveTimeout,
    bodyLimit: config.BODY_LIMIT_BYTES,
    ajv
  })
  await app.register(shutdown)
  await app.register(schema)
  const { tokens, tokenFile, RATE_LIMIT: perSecond } = config
  await app.register(auth, { registry, tokens, file: tokenFile, perSecond })
  await app.register(addOperation, { registry, basePath, bodyMemoryBytes: config.BODY_MEMORY_BYTES })
  addLiveness(app)
  addReadiness(app)
  await app.register(openapi, { basePath, docs: config.DOCS === 'on' })
  const { database: initial, databaseFile, write } = config
  await app.register(database, { registry, initial, file: databaseFile, checks: databaseChecks })
  await app.register(plantRepository, { registry, write, tracing, repository })
  await app.register(plants)
  await app.register(telemetry, { registry })
  app.rejectOtherMethods()
  await app.register(admin, { registry, listen: config.metrics, hasExemplars: tracing !== undefined })
  return app
}
