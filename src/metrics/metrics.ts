/**
 * Metrics whose values are read when the page is, and a histogram that costs a request only a few additions: the library's
 * own processes its labels for each value.
 */
import { readFileSync } from 'node:fs'
import { collectDefaultMetrics, type Metric, Registry } from '@prometheus-io/client'
import { lostLines } from '../logger.ts'

/** The version of this build, such as 1.0.0. Only package.json has it. */
export const { version }: { version: string } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
)

type Labels = Record<string, string | number>

interface Sample {
  readonly metricName?: string
  readonly labels: Labels
  readonly value: number
  readonly exemplar?: Bucket['exemplar']
}

function addMetric(registry: Registry, type: string, name: string, help: string, read: () => Sample[]) {
  // `this`: in OpenMetrics, the registry gives a counter another name.
  const get = function (this: object) {
    return { ...this, values: read() }
  }
  registry.registerMetric({ type, name, help, aggregator: 'sum', get } as unknown as Metric)
}

interface Bucket {
  readonly le: number | string
  count: number
  exemplar?: { labelSet: { trace_id: string }; value: number; timestamp: number }
}

/**
 * Adds the histogram `plant_store_<of>` to a registry. A value belongs to the first of `bounds`, ascending, that is
 * not below it. Returns a function that makes the series of a set of labels; call it once for each set.
 */
export function addHistogram(registry: Registry, of: string, help: string, bounds: readonly number[]) {
  const name = `plant_store_${of}`
  const all: { labels: Labels; buckets: Bucket[]; sum: number }[] = []
  addMetric(registry, 'histogram', name, help, () =>
    all.flatMap(({ labels, buckets, sum }) => {
      let count = 0
      const cumulative = buckets.map(({ le, count: own, exemplar }): Sample => {
        count += own
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count, exemplar }
      })
      const total = { metricName: `${name}_count`, labels, value: count }
      return [...cumulative, { metricName: `${name}_sum`, labels, value: sum }, total]
    })
  )
  return (labels: Labels = {}) => {
    const series = { labels, buckets: [...bounds, '+Inf'].map((le): Bucket => ({ le, count: 0 })), sum: 0 }
    all.push(series)
    return {
      /** Records a value. A bucket's newest value that has a trace id is its exemplar in OpenMetrics. */
      observe(value: number, traceId?: string) {
        let index = 0
        // It ends after the last bound, in the bucket +Inf: no value is greater than undefined.
        while (value > (bounds[index] as number)) index++
        const bucket = series.buckets[index] as Bucket
        bucket.count++
        series.sum += value
        if (traceId !== undefined)
          bucket.exemplar = { labelSet: { trace_id: traceId }, value, timestamp: Date.now() / 1000 }
      }
    }
  }
}

type Read = () => number | Readonly<Record<string, number>> | Sample[]

const addAs =
  (type: 'counter' | 'gauge', suffix: string) =>
  (registry: Registry, name: string, help: string, read: Read, label = '') =>
    addMetric(registry, type, `plant_store_${name}${suffix}`, help, () => {
      const values = read()
      if (Array.isArray(values)) return values
      if (typeof values === 'number') return [{ labels: {}, value: values }]
      return Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))
    })

/** Adds the gauge `plant_store_<name>` to a registry; `read` returns its value, those of `label`, or those of several labels. */
export const addGauge = addAs('gauge', '')

/** Adds the counter `plant_store_<name>_total` to a registry; `read` returns what a gauge's would. */
export const addCounter = addAs('counter', '_total')

/** The values that have one set of labels. */
export type Series = ReturnType<ReturnType<typeof addHistogram>>

/** Metrics of the library whose names promtool refuses; others hold nearly the same. */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_utilization_summary'
]

let ofNode: Registry | undefined

/** Adds the metrics of the process and its build. Node is measured from the first call to the end. */
export function addProcessMetrics(registry: Registry): void {
  if (!ofNode) {
    ofNode = new Registry()
    collectDefaultMetrics({ register: ofNode })
  }
  for (const metric of ofNode.getMetricsAsArray())
    if (!misnamed.includes(metric.name)) registry.registerMetric(metric as unknown as Metric)
  const build = { labels: { version, node_version: process.versions.node }, value: 1 }
  addMetric(registry, 'gauge', 'plant_store_build_info', 'Always 1: what runs', () => [build])
  const help = 'Lines of the log that were lost: standard output could not be written'
  addCounter(registry, 'log_lines_lost', help, lostLines)
}
