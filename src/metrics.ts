/** The metrics of the service and of its process: by the client library, most of them read when the page is made. */
import { readFileSync } from 'node:fs'
import { Counter, collectDefaultMetrics, Gauge } from '@prometheus-io/client'
import { lostLines } from './log.ts'

/** The version of this build, such as 1.0.0. Only package.json has it. */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
)

/** What every name begins with. */
export const prefix = 'plant_store_'

/** Returns a metric's value, or its values by one label. */
type Read = () => number | Readonly<Record<string, number>>

/**
 * Adds the gauge `plant_store_<name>`, or the counter if its name ends in `_total`. `read` returns its value, or its values by
 * `label`, whenever the page is made.
 */
export function addMetric(name: string, help: string, read: Read, label = ''): void {
  const collect = () => {
    const values = read()
    metric.reset()
    if (typeof values === 'number') metric.inc(values)
    else for (const [key, value] of Object.entries(values)) metric.inc({ [label]: key }, value)
  }
  const options = { name: prefix + name, help, labelNames: label ? [label] : [], collect }
  const metric: Pick<Gauge<string>, 'inc' | 'reset'> = name.endsWith('_total')
    ? new Counter<string>(options)
    : new Gauge<string>(options)
}

/** Adds the metrics of Node, the process and its build. */
export function addProcessMetrics(): void {
  collectDefaultMetrics()
  const versions = { version, node_version: process.versions.node }
  const build = { name: `${prefix}build_info`, help: 'Always 1: what runs' }
  new Gauge({ ...build, labelNames: Object.keys(versions) }).set(versions, 1)
  const help = 'Lines of the log that were lost: standard output could not be written'
  addMetric('log_lines_lost_total', help, () => lostLines)
}
