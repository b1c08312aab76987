/** The tables of docs/monitoring.md: the metrics as the service describes them, the log's fields, and the alerts. */
import { readFileSync } from 'node:fs'
import type { FastifyBaseLogger } from 'fastify'
import { parse } from 'yaml'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { errorFields, logFields } from '../../src/log-fields.ts'
import { createLogger } from '../../src/logger.ts'
import { parseMetrics } from '../../test/support/metrics-page.ts'
import { code, table } from './markdown.ts'

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

/** Returns the page of metrics of a service that has met one request. */
async function readPage(): Promise<string> {
  let log = ''
  const logger = createLogger('info', {
    write: (line) => {
      log += line
    }
  })
  const app = await buildDefault(logger)
  try {
    await app.listenForMetrics()
    await fetch(new URL('/livez', await app.listen({ host: '127.0.0.1', port: 0 })))
    return await (await fetch(/"Metrics at ([^"]+)"/.exec(log)?.[1] as string)).text()
  } finally {
    await app.close()
  }
}

/** Returns each metric of the service with its type, labels and meaning. */
export async function writeMetrics(): Promise<string> {
  const page = await readPage()
  const { types, samples } = parseMetrics(page)
  const meanings = page.matchAll(/^# HELP (plant_store_\S+) (.*)$/gm)
  const rows = [...meanings].map(([, name = '', meaning = '']) => {
    const sample = samples.find((one) => one.name === name || one.name === `${name}_count`)
    const labels = Object.keys(sample?.labels ?? {})
      .map(code)
      .join(', ')
    return [code(name), labels ? `${types[name]} by ${labels}` : `${types[name]}`, meaning]
  })
  return table(['metric', 'type', 'meaning'], rows)
}

/** Returns each field of the log's lines, and of the errors in them. */
export function writeLogFields(): string {
  const list = (fields: typeof logFields | typeof errorFields) =>
    table(
      ['field', 'type', 'lines', 'meaning'],
      Object.entries(fields).map(([name, { type, of, meaning }]) => [code(name), type, of, meaning])
    )
  return `${list(logFields)}

The fields of an error, \`cause\` or \`err\`:

${list(errorFields)}`
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
