/** The metrics page and its own listener, whose failures are those of the contract. */
import Fastify, { type FastifyBaseLogger, LogController } from 'fastify'
import { toFailure } from '../failures/failures.ts'
import errorHandler from '../http/error-handler.ts'
import methods from '../http/methods.ts'
import protocol from '../http/protocol.ts'
import { identifyRequest } from '../http/request-id.ts'
import responseHeaders from '../http/response-headers.ts'
import unknownPath from '../http/unknown-path.ts'

/** A scrape is one small packet. */
const timeoutMs = 5_000

/** The page: its text, made for each request, and its type. */
interface Page {
  readonly contentType: string
  metrics(): Promise<string>
}

/** Builds the server of the page at /metrics; it listens to nothing yet. */
export async function buildMetricsServer(page: Page, logger: FastifyBaseLogger) {
  const app = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => identifyRequest(headers),
    http: { requireHostHeader: false, connectionsCheckingInterval: 500 },
    return503OnClosing: false,
    frameworkErrors: (_, request, reply): void => app.rejectBadUrl(request, reply),
    clientErrorHandler: (error, socket) => app.rejectUnreadable(error, socket)
  })
  await app.register(responseHeaders)
  await app.register(errorHandler)
  await app.register(protocol, {
    headersTimeoutMs: timeoutMs,
    requestTimeoutMs: timeoutMs,
    maxConnections: 100
  })
  await app.register(unknownPath)
  await app.register(methods)
  app.addHook('onError', async (_, __, error) => {
    if (toFailure(error).error === 500) app.log.error({ err: error }, 'the metrics page cannot be made')
  })
  app.get('/metrics', { config: { isInternal: true } }, async (_, reply) =>
    reply.type(page.contentType).send(await page.metrics())
  )
  app.rejectOtherMethods()
  return app
}
