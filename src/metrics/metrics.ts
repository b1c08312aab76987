/**
 * Gauges that are read with the page, and a histogram that costs a request only a few additions: the library's processes
 * its labels for each value.
 */
import { Counter, Gauge, type Metric, type Registry } from '@prometheus-io/client'

/** The values that have one set of labels. */
export interface Series {
  /** Records a value. The newest value of a bucket that has a trace id is the bucket's exemplar in OpenMetrics. */
  observe(value: number, traceId?: string): void
}

/** Returns a new series with a set of labels. Call it once for each set, and keep the series. */
export type Histogram = (labels?: Record<string, string | number>) => Series

interface Options {
  name: string
  help: string
  /** Upper bounds, ascending, as in Prometheus: a value belongs to the first that is not below it. */
  buckets: readonly number[]
}

interface Bucket {
  readonly le: number | string
  count: number
  exemplar?: { labelSet: { trace_id: string }; value: number; timestamp: number }
}

/** Adds a histogram to a registry, which reads it with its page. */
export function addHistogram(registry: Registry, { name, help, buckets: bounds }: Options): Histogram {
  const all: { labels: Record<string, string | number>; buckets: Bucket[]; sum: number }[] = []
  const get = () => {
    const values = all.flatMap(({ labels, buckets, sum }) => {
      let count = 0
      const cumulative = buckets.map(({ le, count: own, exemplar }) => {
        count += own
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count, exemplar }
      })
      const total = { metricName: `${name}_count`, labels, value: count }
      return [...cumulative, { metricName: `${name}_sum`, labels, value: sum }, total]
    })
    return { name, help, type: 'histogram', aggregator: 'sum', values }
  }
  registry.registerMetric({ name, get } as unknown as Metric)
  return (labels = {}) => {
    const series = { labels, buckets: [...bounds, '+Inf'].map((le): Bucket => ({ le, count: 0 })), sum: 0 }
    all.push(series)
    return {
      observe(value, traceId) {
        let index = 0
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

/** A value, or one for each value of a label. */
type Values = number | Readonly<Record<string, number>>

function* toSeries(
  values: Values,
  label: string
): Generator<[labels: Record<string, string>, value: number]> {
  if (typeof values === 'number') yield [{}, values]
  else for (const [name, value] of Object.entries(values)) yield [{ [label]: name }, value]
}

/** Adds the gauge `plant_store_<name>` to a registry; `read` returns its value, or those of `label`. */
export function addGauge(registry: Registry, name: string, help: string, read: () => Values, label = '') {
  new Gauge({
    name: `plant_store_${name}`,
    help,
    labelNames: label === '' ? [] : [label],
    registers: [registry],
    collect() {
      for (const [labels, value] of toSeries(read(), label)) this.set(labels, value)
    }
  })
}

/** Adds the counter `plant_store_<name>_total` to a registry; `read` returns its value, or those of `label`. */
export function addCounter(registry: Registry, name: string, help: string, read: () => Values, label = '') {
  new Counter({
    name: `plant_store_${name}_total`,
    help,
    labelNames: label === '' ? [] : [label],
    registers: [registry],
    collect() {
      this.reset()
      for (const [labels, value] of toSeries(read(), label)) this.inc(labels, value)
    }
  })
}

/** Returns a function that calls `make` once for each key, of which there must be few, and remembers what it returned. */
export function memoize<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new Map<Key, Value>()
  return (key) => {
    let value = made.get(key)
    if (value === undefined) {
      value = make(key)
      made.set(key, value)
    }
    return value
  }
}
