/** A metrics page, taken apart. */
import type { Test } from 'tap'
import { until } from './until.ts'

/** One line of the page. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** Takes a page apart (Prometheus, "Text-based format"): the type of each metric, and every sample. */
export function parseMetrics(page: string) {
  const types: Record<string, string> = {}
  const samples: Sample[] = []
  for (const line of page.split('\n')) {
    const [, family, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
    if (family !== undefined && type !== undefined) types[family] = type
    const [, name, labels = '', value] = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (name === undefined) continue
    const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, text]) => [label, text])
    samples.push({ name, labels: Object.fromEntries(pairs), value: Number(value) })
  }
  return {
    types,
    samples,
    /** Gives the values of one metric that are not 0, by their labels' values. */
    values(name: string) {
      const entries = samples
        .filter((sample) => sample.name === name && sample.value !== 0)
        .map((sample) => [Object.values(sample.labels).join(' '), sample.value])
      return Object.fromEntries(entries) as Record<string, number>
    }
  }
}

/** Waits for `plant_store_<name>` on a service's page to have this value. */
export async function shows(t: Test, service: { metrics(): Promise<string> }, name: string, value: number) {
  const read = async () => parseMetrics(await service.metrics()).values(`plant_store_${name}`)[''] ?? 0
  t.equal(await until(read, (seen) => seen === value), value, name)
}
