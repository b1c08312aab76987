/** The table of alerts in docs/monitoring.md. */
import { readFileSync } from 'node:fs'
import type { FastifyBaseLogger } from 'fastify'
import { parse } from 'yaml'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { table } from './markdown.ts'

interface Rule {
  alert?: string
  for?: string
  labels: { severity: string }
}

/** Builds the service with the default settings; it connects to no database. */
export function buildDefault(logger: FastifyBaseLogger) {
  const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1/none', AUTH_TOKENS: 'nobody:0123456789abcdef' }
  return buildApp(readConfig({ ...env, METRICS_PORT: '0' }), logger)
}

/** Returns each alert with how long its condition holds before it fires, and its severity. */
export function writeAlerts(): string {
  const { groups } = parse(
    readFileSync(new URL('../../ops/prometheus/rules.yml', import.meta.url), 'utf8')
  ) as { groups: { rules: Rule[] }[] }
  const alerts = groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined)
  return table(
    ['alert', 'for', 'severity'],
    alerts.map(({ alert = '', for: duration = '', labels }) => [
      `[${alert}](#${alert.toLowerCase()})`,
      duration,
      labels.severity
    ])
  )
}
