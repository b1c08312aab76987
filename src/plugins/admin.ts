/** A second, small application with a listener of its own: /metrics and /livez. Its failures follow the contract, too. */
import { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { createBareApp } from '../http/bare-app.ts'
import { addProcessMetrics } from '../metrics.ts'
import { addLiveness } from './health.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Opens the listener of /metrics and /livez, unless metrics are off. It closes with the application. */
    listenForMetrics(): Promise<void>
  }
}

interface Options {
  registry: Registry
  /** Undefined for no listener. */
  listen: { host: string; port: number } | undefined
}

/** In ms, and short: a scrape's request is one small packet. */
const limits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 72_000,
  maxConnections: 100
}

export default fp<Options>(
  async (app, { registry, listen }) => {
    if (!listen) return void app.decorate('listenForMetrics', async () => {})
    addProcessMetrics(registry)
    const admin = await createBareApp(app.log, { limits })
    addLiveness(admin)
    admin.get('/metrics', async (_, reply) => {
      const page = await registry.metrics()
      return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(page)
    })
    admin.addHook('onError', async (_, __, err) => {
      if (!('error' in err)) app.log.error({ err }, 'the metrics page cannot be made')
    })
    admin.rejectOtherMethods()
    // Not a hook of `onListen`: Fastify would only log its failure, and the service start without metrics.
    app.decorate('listenForMetrics', async () => {
      await admin.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
    })
    app.addHook('onClose', () => admin.close())
  },
  { name: 'admin' }
)
