/** Every file of the repository that is made from the sources. */
import { readFileSync } from 'node:fs'
import { formatComparison } from '../../bench/comparison.ts'
import { formatNeighbours } from '../../bench/neighbours-table.ts'
import { drawCharts } from '../../bench/side-by-side/charts.ts'
import { formatPeers } from '../../bench/side-by-side/tables.ts'
import { writeDashboard } from './dashboard.ts'
import { writeGlossary } from './glossary.ts'
import { writeAlerts } from './monitoring.ts'
import { fillPage } from './parts.ts'
import { writePrometheusRule } from './prometheus-rule.ts'
import { writeRunbook } from './runbook.ts'
import { writeReplicas, writeSizing } from './sizing.ts'

/** What the benchmarks have measured. */
const figures = new URL('../../docs/performance.json', import.meta.url)

/** Returns the text of each file by its path from the repository's root. */
export async function generateFiles(): Promise<Map<string, string>> {
  const { bench, peers, neighbours } = JSON.parse(readFileSync(figures, 'utf8'))
  const performance = {
    bench: formatComparison(bench),
    neighbours: formatNeighbours(neighbours),
    peers: formatPeers(peers)
  }
  const charts = Object.entries(drawCharts(peers))
  return new Map([
    ['CONTRIBUTING.md', fillPage('CONTRIBUTING.md', { glossary: writeGlossary() })],
    ['docs/performance.md', fillPage('docs/performance.md', performance)],
    ['docs/running.md', fillPage('docs/running.md', { sizing: await writeSizing() })],
    ['docs/scaling.md', fillPage('docs/scaling.md', { replicas: writeReplicas() })],
    ['docs/monitoring.md', fillPage('docs/monitoring.md', { alerts: writeAlerts() })],
    ['ops/grafana/dashboard.json', writeDashboard()],
    ['ops/prometheus/web/runbook.html', writeRunbook()],
    ['deploy/kubernetes/monitoring/prometheus-rule.yaml', writePrometheusRule()],
    ...charts.map(([name, chart]) => [`docs/${name}`, chart] as const)
  ])
}
