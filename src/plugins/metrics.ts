/** The metrics: what counts them, and their page on a listener that lives as long as the application. */
import { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { createHttpMetrics } from '../metrics/http-metrics.ts'
import { buildMetricsServer } from '../metrics/listener.ts'
import { processMetrics } from '../metrics/process-metrics.ts'
import { createStorageMetrics } from '../metrics/storage-metrics.ts'
import { createTokenMetrics } from '../metrics/token-metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    metrics: {
      http: ReturnType<typeof createHttpMetrics>
      storage: ReturnType<typeof createStorageMetrics>
      tokens: ReturnType<typeof createTokenMetrics>
    }
  }
}

/** Where the page is: undefined for nowhere, port 0 for a free one. */
interface Options {
  listen: { readonly host: string; readonly port: number } | undefined
}

export default fp<Options>(
  async (app, { listen }) => {
    const registry = new Registry()
    const http = createHttpMetrics(registry, app.left)
    const [storage, tokens] = [createStorageMetrics(registry), createTokenMetrics(registry)]
    app.decorate('metrics', { http, storage, tokens })
    app.server.on('drop', http.dropped)
    app.addHook('onResponse', (request, reply, done) => {
      const { method, failure, routeOptions } = request
      http.answered({ route: routeOptions.url, method, failure, ms: reply.elapsedTime })
      done()
    })
    if (listen === undefined) return

    const parts = [registry, processMetrics()]
    const page = {
      contentType: registry.contentType,
      metrics: async () => (await Promise.all(parts.map((part) => part.metrics()))).join('\n')
    }
    const server = await buildMetricsServer(page, app.log)
    app.addHook('onReady', async () => {
      const listenTextResolver = (address: string) => `Metrics at ${address}/metrics`
      await server.listen({ ...listen, listenTextResolver })
      // By itself it keeps no process alive: one that cannot listen for plants has to end.
      server.server.unref()
    })
    app.addHook('onClose', () => server.close())
  },
  { name: 'metrics', dependencies: ['drain', 'error-handler'] }
)
