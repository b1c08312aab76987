/** The operators' side: the metrics page on a listener of its own, as long as the application lives. */
import { type Metric, Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { processMetrics } from '../metrics/process-metrics.ts'
import { buildAdminApp } from './app.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Opens the listener of the metrics page, where there is to be one; it closes with the application. */
    listenForMetrics(): Promise<void>
  }
}

interface Options {
  /** What the application counts. */
  registry: Registry
  /** Where the page is: undefined for nowhere, port 0 for a free one. */
  listen: { readonly host: string; readonly port: number } | undefined
}

export default fp<Options>(
  async (app, { registry, listen }) => {
    const admin = listen && (await buildAdminApp(createPage(registry), app.log))
    // Not in an `onListen` hook: what fails there Fastify only logs.
    app.decorate('listenForMetrics', async () => {
      await admin?.listen({ ...listen, listenTextResolver: (address) => `Metrics at ${address}/metrics` })
    })
    app.addHook('onClose', () => admin?.close())
  },
  { name: 'admin' }
)

/** Puts what this application counts and what is measured of the process on one page. */
function createPage(registry: Registry) {
  const page = new Registry(registry.contentType)
  for (const part of [registry, processMetrics()])
    for (const metric of part.getMetricsAsArray()) page.registerMetric(metric as unknown as Metric)
  return page
}
