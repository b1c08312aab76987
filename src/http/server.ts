/** The server of an application: what Node and Fastify would respond to by themselves goes to our handlers. */
import type { Server } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  LogController
} from 'fastify'
import { identifyRequest } from './request-log.ts'

const noQuery = {}

/** Makes an application that logs here, with options of its own in addition to the common ones. */
export function createServer(
  logger: FastifyBaseLogger,
  options: FastifyHttpOptions<Server> = {}
): FastifyInstance {
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: ({ headers }) => identifyRequest(headers),
    // No route takes a query. Parsed, one of 16 kB would be an object ten times as large.
    routerOptions: { querystringParser: () => noQuery },
    http: { requireHostHeader: false, connectionsCheckingInterval: 500 },
    return503OnClosing: false,
    frameworkErrors: (_, request, reply): void => app.rejectBadUrl(request, reply),
    clientErrorHandler: (error, socket) => app.rejectUnreadable(error, socket),
    ...options
  })
  return app
}
