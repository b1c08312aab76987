/** Gauges that are read when the page is, and a histogram that costs a request a few additions: the library's takes its labels apart for each value. */
import { Gauge, type Metric, type Registry } from '@prometheus-io/client'

/** The values that have one set of labels. */
export interface Series {
  /** Takes a value; the newest of each bucket with a trace id is its exemplar where the page is OpenMetrics. */
  observe(value: number, traceId?: string): void
}

/** Gives the series of a set of labels. It is looked up once: whoever observes keeps it. */
export type Histogram = (labels?: Record<string, string | number>) => Series

interface Options {
  name: string
  help: string
  /** Upper bounds, ascending, as Prometheus has them: a value belongs to the first that is not below it. */
  buckets: readonly number[]
}

interface Bucket {
  readonly le: number | string
  count: number
  exemplar?: { labelSet: { trace_id: string }; value: number; timestamp: number }
}

/** Adds a histogram to a registry, which reads it when its page is asked for. */
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
