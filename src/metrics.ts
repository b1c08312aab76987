/** The metrics of an application: its registry, what all names begin with, and gauges that are read when the page is made. */
import { Gauge, Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** The application's own metrics: each is made with `registers: [app.metrics]`. Those of the process are in the library's. */
    metrics: Registry
  }
}

/** What every name begins with. */
export const prefix = 'plant_store_'

export default fp(async (app) => {
  app.decorate('metrics', new Registry())
})

/** Adds the gauge `plant_store_<name>` to a registry. `read` returns its value whenever the page is made. */
export function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  const gauge: Gauge = new Gauge({
    name: prefix + name,
    help,
    registers: [registry],
    collect: () => gauge.set(read())
  })
}
