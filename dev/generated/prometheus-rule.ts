/** deploy/kubernetes/monitoring/prometheus-rule.yaml: the alerts as the Prometheus Operator takes them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const rules = join(import.meta.dirname, '../../ops/prometheus/rules.yml')

/** Returns the manifest with the rules of ops/prometheus. */
export function writePrometheusRule(): string {
  const groups = readFileSync(rules, 'utf8').replace(/^.*?(?=^groups:)/ms, '')
  return `# Made by \`npm run generate\` from ops/prometheus/rules.yml; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: plant-store
  labels:
    app.kubernetes.io/name: plant-store
    app.kubernetes.io/component: api
spec:
${groups.replace(/^(?=.)/gm, '  ')}`
}
