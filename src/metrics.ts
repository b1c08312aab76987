/**
 * The metrics of an application: its registry, the prefix of all names, and gauges whose values are
 * read when the metrics page is made.
 */
import { Gauge, Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The application's own metrics. Make each of them with `registers: [app.metrics]`. The
     * library's default registry has the metrics of the process.
     */
    metrics: Registry
  }
}

/** The beginning of every metric's name. */
export const prefix = 'plant_store_'

export default fp(async (app) => {
  app.decorate('metrics', new Registry())
})

/**
 * Adds the gauge `plant_store_<name>` to a registry. `read` returns its value whenever the page is
 * made.
 */
export function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  const gauge: Gauge = new Gauge({
    name: prefix + name,
    help,
    registers: [registry],
    collect: () => gauge.set(read())
  })
}
