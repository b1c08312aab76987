/** The metrics of the process and its build, one set in a process. */
import { collectDefaultMetrics, Gauge, Registry } from '@prometheus-io/client'
import { lostLines } from '../logger.ts'
import { version } from '../version.ts'
import { addCounter } from './metrics.ts'

/** Metrics of the library whose names promtool refuses; others hold nearly the same. */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_utilization_summary'
]

let registry: Registry | undefined

/** Returns the registry of the process; measuring begins with the first call and ends with the process. */
export function processMetrics(): Registry {
  registry ??= start()
  return registry
}

function start(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)
  new Gauge({
    name: 'plant_store_build_info',
    help: 'Always 1: what runs',
    labelNames: ['version', 'node_version'],
    registers: [registry]
  }).set({ version, node_version: process.versions.node }, 1)
  const help = 'Lines of the log that were lost: standard output could not be written'
  addCounter(registry, 'log_lines_lost', help, lostLines)
  return registry
}
