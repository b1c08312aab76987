/** The metrics of the service and of its process: by the client library, most of them read when the page is made. */
import { readFileSync } from 'node:fs'
import { Counter, collectDefaultMetrics, Gauge, Histogram, type Registry } from '@prometheus-io/client'
import { lostLines } from './log.ts'

/** The version of this build, such as 1.0.0. Only package.json has it. */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8')
)

/** What every name begins with. */
export const prefix = 'plant_store_'

/** Returns a metric's value, or its values by one label. */
type Read = () => number | Readonly<Record<string, number>>

/** Returns the values with their labels. */
function list(read: Read, label: string | undefined): [labels: Record<string, string>, value: number][] {
  const values = read()
  if (typeof values === 'number') return [[{}, values]]
  return Object.entries(values).map(([name, value]) => [{ [`${label}`]: name }, value])
}

const describe = (registry: Registry, name: string, help: string, label?: string) => ({
  name: prefix + name,
  help,
  labelNames: label === undefined ? [] : [label],
  registers: [registry]
})

/** Adds the gauge `plant_store_<name>` to a registry; `read` returns its value, or its values by `label`. */
export function addGauge(registry: Registry, name: string, help: string, read: Read, label?: string): void {
  const gauge: Gauge<string> = new Gauge({
    ...describe(registry, name, help, label),
    collect() {
      for (const [labels, value] of list(read, label)) gauge.set(labels, value)
    }
  })
}

/** Adds the counter `plant_store_<name>_total` to a registry; `read` returns what a gauge's would. */
export function addCounter(registry: Registry, name: string, help: string, read: Read, label?: string): void {
  const counter: Counter<string> = new Counter({
    ...describe(registry, `${name}_total`, help, label),
    collect() {
      counter.reset()
      for (const [labels, value] of list(read, label)) counter.inc(labels, value)
    }
  })
}

/**
 * Adds the histogram `plant_store_<name>` to a registry; `bounds` are its buckets, ascending. Returns a function that makes
 * the series of a value of `label`.
 */
export function addHistogram(
  registry: Registry,
  name: string,
  help: string,
  bounds: readonly number[],
  label?: string
) {
  const histogram = new Histogram({ ...describe(registry, name, help, label), buckets: [...bounds] })
  return (labels: Record<string, string> = {}) => {
    histogram.zero(labels)
    return { observe: (value: number) => histogram.observe(labels, value) }
  }
}

/** Metrics of the library whose names promtool refuses; others hold nearly the same. */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_utilization_summary'
]

/** Adds the metrics of Node, the process and its build. */
export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)
  const build = new Gauge({
    name: `${prefix}build_info`,
    help: 'Always 1: what runs',
    labelNames: ['version', 'node_version'],
    registers: [registry]
  })
  build.set({ version, node_version: process.versions.node }, 1)
  const help = 'Lines of the log that were lost: standard output could not be written'
  addCounter(registry, 'log_lines_lost', help, lostLines)
}
