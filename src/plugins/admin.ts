/** A second, small application with a listener of its own: /metrics and /livez. Its failures follow the contract, too. */
import { register } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { createBareApp } from '../http/bare-app.ts'
import { addProcessMetrics } from '../metrics.ts'

/** In ms, and short: a scrape's request is one small packet. */
const limits = {
  headersTimeout: 5_000,
  requestTimeout: 5_000,
  keepAliveTimeout: 72_000,
  maxConnections: 100
}

/** `listen` is undefined for no listener. */
export default fp<{ listen: { host: string; port: number } | undefined }>(async (app, { listen }) => {
  if (!listen) return
  addProcessMetrics()
  const admin = await createBareApp(app.log, limits)
  admin.get('/livez', () => ({ status: 'alive' }))
  admin.get('/metrics', (_, reply) => {
    reply.type(register.contentType)
    return register.metrics()
  })
  admin.addHook('onError', async (_, __, err) => {
    if (!('error' in err)) app.log.error({ err }, 'the metrics page cannot be made')
  })
  admin.rejectOtherMethods()
  // Before the application listens. Of a hook of `onListen` Fastify would only log the failure.
  app.addHook('onReady', async () => {
    await admin.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
  })
  app.addHook('onClose', () => admin.close())
})
