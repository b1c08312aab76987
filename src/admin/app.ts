/** The second small application: the metrics page, whose failures are those of the contract. */
import type { FastifyBaseLogger } from 'fastify'
import connections from '../connections/connections.ts'
import shutdown from '../connections/shutdown.ts'
import { toFailure } from '../failures/failure.ts'
import errorHandler from '../http/error-handler.ts'
import methods from '../http/methods.ts'
import protocol from '../http/protocol.ts'
import responseHeaders from '../http/response-headers.ts'
import { createServer } from '../http/server.ts'

/** A scrape is one small packet. */
const timeoutMs = 5_000

/** The page: its text, made for each request, and its type. */
interface Page {
  readonly contentType: string
  metrics(): Promise<string>
}

/** Builds the application of the page at /metrics; it listens to nothing yet. */
export async function buildAdminApp(page: Page, logger: FastifyBaseLogger) {
  const app = createServer(logger)
  await app.register(responseHeaders)
  await app.register(errorHandler)
  await app.register(connections, {
    headersTimeoutMs: timeoutMs,
    requestTimeoutMs: timeoutMs,
    maxConnections: 100
  })
  await app.register(protocol)
  await app.register(shutdown)
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
