/**
 * A second, small application with a listener of its own: /metrics, and the probes, which clients that take all connections
 * cannot keep out here. Its failures follow the contract, too.
 */
import { Registry, register } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { createBareApp } from '../http/bare-app.ts'

export default fp<Config>(
  async (app, { connectionLimits, METRICS_HOST: host, METRICS_PORT: port }) => {
    const admin = await createBareApp(app.log, { ...connectionLimits, maxConnections: 100 })
    app.addProbes(admin)
    admin.get('/metrics', (_, reply) => {
      // The process's metrics, such as its memory, and the application's.
      const page = Registry.merge([register, app.metrics])
      reply.type(page.contentType)
      return page.metrics()
    })
    admin.addHook('onError', async (_, __, err) => {
      if (!('error' in err)) app.log.error({ err }, 'the metrics page cannot be made')
    })
    admin.rejectOtherMethods()
    // Before the application listens. Of a hook of `onListen` Fastify would only log the failure.
    app.addHook('onReady', async () => {
      await admin.listen({
        host,
        port,
        listenTextResolver: (address) => `Metrics at ${address}/metrics`
      })
    })
    app.addHook('onClose', () => admin.close())
  }
)
