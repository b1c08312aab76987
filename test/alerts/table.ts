/** A table of the alerts: what made each fire, and what did not, in promtool's cases and in a real Prometheus. */
import { readTests } from './promtool.ts'

/** Returns promtool's cases of each alert: the names of those in which it fires, and of those in which it is silent. */
export function readCases(): Map<string, { fires: Set<string>; silent: Set<string> }> {
  const cases = new Map<string, { fires: Set<string>; silent: Set<string> }>()
  for (const { name, alert_rule_test: checks } of readTests())
    for (const { alertname, exp_alerts: expected } of checks) {
      const of = cases.get(alertname) ?? { fires: new Set(), silent: new Set() }
      cases.set(alertname, of)
      of[expected.length > 0 ? 'fires' : 'silent'].add(name)
    }
  return cases
}

/** Returns the table in Markdown. `seen` says when, in seconds, each began to fire in the Prometheus of this version. */
export function writeTable(alerts: string[], version: string, seen: Map<string, number[]>): string {
  const cases = readCases()
  const list = (names?: Iterable<string>) => [...(names ?? [])].join(' / ') || '–'
  const rows = alerts.map((name) => {
    const { fires, silent } = cases.get(name) ?? {}
    const times = seen.get(name)?.map((seconds) => `${seconds} s`)
    return `|${[name, list(fires), list(silent), list(times)].join('|')}|`
  })
  const head = ['alert', 'fires in promtool', 'silent in promtool', `fired in Prometheus ${version}, after`]
  return [`|${head.join('|')}|`, '|---|---|---|---|', ...rows].join('\n')
}
