/** The application: server options and explicit registrations. Production and tests build the same one. */
import Fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import metrics from './admin/admin.ts'
import auth from './auth/auth.ts'
import rateLimit from './auth/rate-limit.ts'
import type { Config } from './config/config.ts'
import backpressure from './http/backpressure.ts'
import drain from './http/drain.ts'
import errorHandler from './http/error-handler.ts'
import body from './http/json-body.ts'
import methods from './http/methods.ts'
import probes from './http/probes.ts'
import protocol from './http/protocol.ts'
import { identifyRequest } from './http/request-id.ts'
import requestLog from './http/request-log.ts'
import responseHeaders from './http/response-headers.ts'
import unknownPath, { noPath } from './http/unknown-path.ts'
import docs from './openapi/page.ts'
import openapi from './openapi/route.ts'
import admission from './plants/admission.ts'
import plants from './plants/route.ts'
import schema, { ajv } from './plants/schema.ts'
import database from './plants/storage.ts'
import type { Tracing } from './tracing/tracing.ts'

/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Longer than balancers keep idle connections, or their next request meets one that closes: AWS's 60 s, Google's 600 s. */
const idleMs = 620_000

/** Builds the application; it listens to nothing yet and connects to the database with its first request. */
export async function buildApp(config: Config, logger: FastifyBaseLogger, tracing?: Tracing) {
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: ({ headers }) => identifyRequest(headers),
    trustProxy: config.trustProxy,
    bodyLimit: config.bodyLimitBytes,
    ajv,
    // The rest of what Node and Fastify would answer by themselves.
    http: { requireHostHeader: false, connectionsCheckingInterval: 500 },
    keepAliveTimeout: idleMs,
    // The router would take OPTIONS * for the root.
    rewriteUrl: ({ url = '' }) => (url === '*' ? noPath : url.replace(absoluteForm, '')),
    return503OnClosing: false,
    frameworkErrors: (_, request, reply): void => app.rejectBadUrl(request, reply),
    clientErrorHandler: (error, socket) => app.rejectUnreadable(error, socket)
  })
  if (tracing) await app.register(tracing.requests)
  await app.register(responseHeaders)
  await app.register(errorHandler)
  await app.register(protocol, {
    headersTimeoutMs: config.headersTimeoutMs,
    requestTimeoutMs: config.requestTimeoutMs,
    maxConnections: config.maxConnections,
    onRefused: ({ name }) => app.metrics.http.failed(name)
  })
  await app.register(unknownPath)
  await app.register(methods)
  await app.register(drain)
  await app.register(metrics, { listen: config.metrics })
  await app.register(backpressure)
  await app.register(body)
  await app.register(schema)
  await app.register(auth, {
    tokens: config.tokens,
    file: config.tokenFile,
    onFollowed: app.metrics.tokens.watch
  })
  await app.register(rateLimit, { perSecond: config.rateLimit })
  await app.register(requestLog)
  await app.register(database, { connection: config.database, write: config.write, tracing })
  const { maxConnections, bodyMemoryBytes } = config
  await app.register(admission, { maxConnections, bodyMemoryBytes })
  await app.register(probes, { checkReadiness: app.checkReadiness })
  await app.register(openapi, { basePath: config.basePath })
  if (config.docs) await app.register(docs)
  await app.register(plants, { prefix: config.basePath })
  app.rejectOtherMethods()
  return app
}
