/**
 * A second, small application with a listener of its own. It has /metrics and the probes: clients
 * that take all connections of the first application cannot keep these out here. Its failures
 * follow the contract, too.
 */
import { Registry, register } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { createBareApp } from '../http/bare-app.ts'

export default fp<Config>(async (app, config) => {
  const { connectionLimits, METRICS_HOST: host, METRICS_PORT: port } = config
  const admin = await createBareApp(app.log, { ...connectionLimits, maxConnections: 100 })
  app.addProbes(admin)
  admin.get('/metrics', (_, reply) => {
    // The page has the metrics of the process, such as its memory, and those of the application.
    const page = Registry.merge([register, app.metrics])
    reply.type(page.contentType)
    return page.metrics()
  })
  admin.addHook('onError', async (_, __, err) => {
    // A Failure is expected, such as NotReady. Anything else comes from a metric.
    if (!('error' in err)) app.log.error({ err }, 'the metrics page cannot be made')
  })
  admin.rejectOtherMethods()
  // Listen before the application does. An error in a hook `onListen` would only be logged, and the
  // process would start without metrics.
  app.addHook('onReady', async () => {
    const listenTextResolver = (address: string) => `Metrics at ${address}/metrics`
    await admin.listen({ host, port, listenTextResolver })
  })
  app.addHook('onClose', () => admin.close())
})
