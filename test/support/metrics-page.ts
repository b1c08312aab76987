/** A page of metrics, parsed (Prometheus, "Text-based format"). */

/** One line of the page. */
interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

/** Returns the type of each metric, and every sample. */
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
    /** Returns the values of one metric that are not 0, by their labels' values. */
    values(name: string) {
      const entries = samples
        .filter((sample) => sample.name === name && sample.value !== 0)
        .map((sample) => [Object.values(sample.labels).join(' '), sample.value])
      return Object.fromEntries(entries) as Record<string, number>
    },
    /** Returns the value of the first sample of a metric; NaN if there is none. */
    value: (name: string) => samples.find((sample) => sample.name === name)?.value ?? Number.NaN
  }
}
