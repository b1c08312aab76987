/** A second, small application: the metrics page, on a listener of its own. Its failures follow the contract, too. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/config.ts'
import { toFailure } from '../failures/failure.ts'
import { createServer } from '../http/server.ts'
import { addProcessMetrics } from '../metrics/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Opens the listener of the metrics page, unless metrics are off. It closes with the application. */
    listenForMetrics(): Promise<void>
  }
}

export default fp<{ registry: Registry; listen: Config['metrics'] }>(
  async (app, { registry, listen }) => {
    if (listen) addProcessMetrics(registry)
    const admin = listen && (await buildAdminApp(registry, app.log))
    // Not in an `onListen` hook: Fastify only logs what fails there.
    app.decorate('listenForMetrics', async () => {
      await admin?.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
    })
    app.addHook('onClose', () => admin?.close())
  },
  { name: 'admin' }
)

/** Builds the application of the page at /metrics. It does not listen yet. */
export async function buildAdminApp(
  page: { contentType: string; metrics(): Promise<string> },
  logger: FastifyBaseLogger
) {
  // A scrape is one small packet.
  const limits = {
    headersTimeoutMs: 5_000,
    requestTimeoutMs: 5_000,

    maxConnections: 100
  }
  const app = await createServer(logger, limits)
  app.addHook('onError', async (_, __, error) => {
    if (toFailure(error).error === 500) app.log.error({ err: error }, 'the metrics page cannot be made')
  })
  app.get('/metrics', async (_, reply) => reply.type(page.contentType).send(await page.metrics()))
  app.rejectOtherMethods()
  return app
}
