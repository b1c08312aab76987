/** A second, small application with a listener of its own: /metrics and /livez. Its failures follow the contract, too. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/config.ts'
import { toFailure } from '../failures/failure.ts'
import { createBareApp } from '../http/bare-app.ts'
import { addProcessMetrics } from '../metrics/metrics.ts'
import { createMetricsPage, type Source } from './metrics-page.ts'
import { addLiveness } from './probes.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Opens the listener of /metrics and /livez, unless metrics are off. It closes with the application. */
    listenForMetrics(): Promise<void>
  }
}

interface Options {
  registry: Registry
  /** Undefined for no listener. */
  listen: Config['metrics']
  /** Whether the page may have exemplars: requests have trace ids. */
  hasExemplars: boolean
}

export default fp<Options>(
  async (app, { registry, listen, hasExemplars }) => {
    if (listen) addProcessMetrics(registry)
    const admin = listen && (await buildAdminApp(registry, hasExemplars, app.log))
    // Not a hook of `onListen`: Fastify would only log its failure, and the service start without metrics.
    app.decorate('listenForMetrics', async () => {
      await admin?.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
    })
    app.addHook('onClose', () => admin?.close())
  },
  { name: 'admin' }
)

/** Builds the application of /metrics and /livez. It does not listen yet. */
export async function buildAdminApp(registry: Source, hasExemplars: boolean, logger: FastifyBaseLogger) {
  // Short limits: a scrape's request is one small packet.
  const limits = {
    headersTimeoutMs: 5_000,
    requestTimeoutMs: 5_000,
    keepAliveTimeout: 72_000,
    maxConnections: 100
  }
  const app = await createBareApp(logger, limits)
  app.addHook('onError', async (_, __, error) => {
    if (toFailure(error).error === 500) app.log.error({ err: error }, 'the metrics page cannot be made')
  })
  addLiveness(app)
  const readPage = createMetricsPage(registry, hasExemplars)
  app.get('/metrics', async ({ headers }, reply) => {
    const { type, bytes } = await readPage(headers.accept)
    return reply.type(type).send(bytes)
  })
  app.rejectOtherMethods()
  return app
}
