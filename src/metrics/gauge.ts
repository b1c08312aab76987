/** Gauges that are read when the page is. */
import { Gauge, type Registry } from '@prometheus-io/client'

/** Adds the gauge `plant_store_<name>` to a registry; `read` gives its value. */
export function addGauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name: `plant_store_${name}`,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    }
  })
}
