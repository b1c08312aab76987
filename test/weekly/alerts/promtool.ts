/** What promtool tests the alerts with, from the table of cases in cases.yml. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'

/**
 * A case: `case` is its name, and `every` how often its series have a value. The other keys are
 * - `metric{labels}`: the values of a series, as promtool writes them;
 * - `Alert at time`: `silent`, or, for each alert that fires then, its severity with its labels, its summary and its description.
 * Labels are `service="plant-store", environment="production", job="plant-store"` and what the braces add or, with `!`, take away;
 * `a` stands for `instance="a:9464"`.
 */
type Case = { readonly case: string; readonly every: string } & Readonly<Record<string, string | string[]>>

const prometheus = 'http://prometheus.test'
const rules = join(import.meta.dirname, '../../ops/prometheus/rules.yml')

const readTable = (): Case[] =>
  // All are texts: 0x20 is a zero and 20 more.
  parse(readFileSync(join(import.meta.dirname, 'cases.yml'), 'utf8'), { schema: 'failsafe' })

/** Returns the labels that the text between braces stands for. */
function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {
    service: 'plant-store',
    environment: 'production',
    job: 'plant-store'
  }
  for (const part of text.match(/[^\s,="]+(="[^"]*")?/g) ?? []) {
    const [name = '', value] = part.split(/="|"$/)
    if (value !== undefined) labels[name] = value
    else if (name.startsWith('!')) delete labels[name.slice(1)]
    else labels.instance = `${name}:9464`
  }
  return labels
}

/** Splits `name{labels}`. */
function split(text: string) {
  const [, name = '', labels = ''] = /^([^{]+)\{(.*)\}$/.exec(text) ?? []
  return { name, labels: readLabels(labels) }
}

function toSeries([key, values]: [string, string | string[]]) {
  const { name, labels } = split(key)
  const list = Object.entries(labels).map((label) => `${label[0]}="${label[1]}"`)
  return { series: `${name}{${list.join(', ')}}`, values }
}

function toExpectation([key, expected]: [string, string | string[]]) {
  const [alertname = '', time] = key.split(' at ')
  const lines = expected === 'silent' ? [] : [...expected]
  const alerts = []
  while (lines.length > 0) {
    const [head = '', summary, description] = lines.splice(0, 3)
    const { name: severity, labels } = split(head)
    const runbook_url = `${prometheus}/user/runbook.html#${alertname.toLowerCase()}`
    alerts.push({
      exp_labels: { severity, ...labels },
      exp_annotations: { summary, description, runbook_url }
    })
  }
  return { alertname, eval_time: time, exp_alerts: alerts }
}

/** Returns the cases as promtool reads them. */
function readTests() {
  return readTable().map(({ case: name, every, ...others }) => {
    const entries = Object.entries(others)
    return {
      name,
      external_url: prometheus,
      interval: every,
      input_series: entries.filter(([key]) => key.includes('{')).map(toSeries),
      alert_rule_test: entries.filter(([key]) => key.includes(' at ')).map(toExpectation)
    }
  })
}

/** Returns the names of the cases in which each alert fires, and of those in which it is silent. */
export function readCases() {
  const cases = new Map<string, { fires: Set<string>; silent: Set<string> }>()
  for (const { name, alert_rule_test: checks } of readTests())
    for (const { alertname, exp_alerts: expected } of checks) {
      const of = cases.get(alertname) ?? { fires: new Set(), silent: new Set() }
      cases.set(alertname, of)
      of[expected.length > 0 ? 'fires' : 'silent'].add(name)
    }
  return cases
}

/** Writes the cases as promtool reads them. */
export const writeCases = (file: string) =>
  writeFileSync(
    file,
    stringify({
      rule_files: [rules],
      evaluation_interval: '30s',
      // Otherwise promtool draws the order, and an alert may see the rates of the time before.
      group_eval_order: ['plant-store-objectives', 'plant-store'],
      tests: readTests()
    })
  )
