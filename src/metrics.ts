/** What all metrics share: their prefix, the version of this build, and gauges that are read when the page is made. */
import { readFileSync } from 'node:fs'
import { Gauge } from '@prometheus-io/client'

/** The version of this build, such as 1.0.0. Only package.json has it. */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
)

/** What every name begins with. */
export const prefix = 'plant_store_'

/** Adds the gauge `plant_store_<name>`. `read` returns its value whenever the page is made. */
export function addGauge(name: string, help: string, read: () => number): void {
  const gauge: Gauge = new Gauge({ name: prefix + name, help, collect: () => gauge.set(read()) })
}
