/** The metrics: what counts them, and their page on a listener of its own. */
import { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { createTokenMetrics } from '../auth/metrics.ts'
import { createHttpMetrics } from '../http/metrics.ts'
import { processMetrics } from '../metrics/process-metrics.ts'
import { createStorageMetrics } from '../plants/metrics.ts'
import { buildMetricsServer } from './app.ts'

declare module 'fastify' {
  interface FastifyInstance {
    metrics: {
      http: ReturnType<typeof createHttpMetrics>
      storage: ReturnType<typeof createStorageMetrics>
      tokens: ReturnType<typeof createTokenMetrics>
      /** Opens the page's listener, where there is to be one; it closes with the application. */
      listen(): Promise<void>
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
    const server = listen && (await buildMetricsServer(createPage(registry), app.log))
    app.decorate('metrics', {
      http,
      storage,
      tokens,
      // Not in an `onListen` hook: what fails there Fastify only logs.
      async listen() {
        await server?.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
      }
    })
    app.addHook('onClose', () => server?.close())
    app.server.on('drop', http.dropped)
    app.addHook('onResponse', (request, reply, done) => {
      const { method, failure, routeOptions } = request
      http.answered({ route: routeOptions.url, method, failure, ms: reply.elapsedTime })
      done()
    })
  },
  { name: 'metrics', dependencies: ['drain', 'error-handler'] }
)

/** Puts what this application counts and what is measured of the process on one page. */
function createPage(registry: Registry) {
  const parts = [registry, processMetrics()]
  return {
    contentType: registry.contentType,
    metrics: async () => (await Promise.all(parts.map((part) => part.metrics()))).join('\n')
  }
}
