/** A histogram that costs a request a few additions: the library's takes its labels apart for each value. */
import type { Metric, Registry } from '@prometheus-io/client'

/** The values that have one set of labels. */
export interface Series {
  observe(value: number): void
}

/** Gives the series of a set of labels. It is looked up once: whoever observes keeps it. */
export type Histogram = (labels?: Record<string, string | number>) => Series

interface Options {
  name: string
  help: string
  /** Upper bounds, ascending, as Prometheus has them: a value belongs to the first that is not below it. */
  buckets: readonly number[]
}

/** Adds a histogram to a registry, which reads it when its page is asked for. */
export function addHistogram(registry: Registry, { name, help, buckets }: Options): Histogram {
  const bounds = [...buckets, '+Inf']
  const all: { labels: Record<string, string | number>; counts: number[]; sum: number }[] = []
  const get = () => {
    const values = all.flatMap(({ labels, counts, sum }) => {
      let count = 0
      const cumulative = bounds.map((le, index) => {
        count += counts[index] as number
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
      })
      const total = { metricName: `${name}_count`, labels, value: count }
      return [...cumulative, { metricName: `${name}_sum`, labels, value: sum }, total]
    })
    return { name, help, type: 'histogram', aggregator: 'sum', values }
  }
  registry.registerMetric({ name, get } as unknown as Metric)
  return (labels = {}) => {
    const series = { labels, counts: bounds.map(() => 0), sum: 0 }
    all.push(series)
    return {
      observe(value) {
        let index = 0
        while (value > (buckets[index] as number)) index++
        ;(series.counts[index] as number)++
        series.sum += value
      }
    }
  }
}
