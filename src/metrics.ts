/** The metrics of the service and of its process: by the client library, most of them read when the page is made. */
import { readFileSync } from 'node:fs'
import { Counter, collectDefaultMetrics, Gauge, type Registry } from '@prometheus-io/client'
import { lostLines } from './log.ts'

/** The version of this build, such as 1.0.0. Only package.json has it. */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
)

/** What every name begins with. */
export const prefix = 'plant_store_'

/** Returns a metric's value, or its values by one label. */
type Read = () => number | Readonly<Record<string, number>>

/** Returns what a gauge and a counter have in common; `write` gets each value whenever the page is made. */
const describe = (registry: Registry, name: string, help: string, label: string | undefined, read: Read) => ({
  name: prefix + name,
  help,
  labelNames: label === undefined ? [] : [label],
  registers: [registry],
  each(write: (labels: Record<string, string>, value: number) => void) {
    const values = read()
    if (typeof values === 'number') write({}, values)
    else for (const [key, value] of Object.entries(values)) write({ [`${label}`]: key }, value)
  }
})

/** Adds the gauge `plant_store_<name>` to a registry; `read` returns its value, or its values by `label`. */
export function addGauge(registry: Registry, name: string, help: string, read: Read, label?: string): void {
  const { each, ...options } = describe(registry, name, help, label, read)
  const gauge: Gauge<string> = new Gauge({ ...options, collect: () => each(gauge.set.bind(gauge)) })
}

/** Adds the counter `plant_store_<name>_total` to a registry; `read` returns what a gauge's would. */
export function addCounter(registry: Registry, name: string, help: string, read: Read, label?: string): void {
  const { each, ...options } = describe(registry, `${name}_total`, help, label, read)
  const collect = () => {
    counter.reset()
    each((labels, value) => counter.inc(labels, value))
  }
  const counter: Counter<string> = new Counter({ ...options, collect })
}

/** Metrics of the library whose names promtool refuses; others hold nearly the same. */
const misnamed =
  'active_handles_total active_requests_total active_resources_total eventloop_utilization_histogram eventloop_utilization_summary'

/** Adds the metrics of Node, the process and its build. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed.split(' ')) registry.removeSingleMetric(`nodejs_${name}`)
  const build = { name: `${prefix}build_info`, help: 'Always 1: what runs', registers: [registry] }
  const versions = { version, node_version: process.versions.node }
  new Gauge({ ...build, labelNames: Object.keys(versions) }).set(versions, 1)
  const help = 'Lines of the log that were lost: standard output could not be written'
  addCounter(registry, 'log_lines_lost', help, lostLines)
}
