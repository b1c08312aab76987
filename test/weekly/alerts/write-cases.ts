/** Writes the cases of cases.yml to standard output as promtool reads them; rules.yml must be beside that file. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'

/**
 * A case: `case` is its name, and `every` how often its series have a value. The other keys are
 * - `metric{labels}`: the values of a series, as promtool writes them;
 * - `Alert at time`: `silent`, or the severity of each alert that fires then, with its labels.
 * Labels are `service="plant-store", environment="production", job="plant-store"` and what the braces add or, with `!`, take away;
 * `a` stands for `instance="a:9464"`.
 */
type Case = { readonly case: string; readonly every: string } & Readonly<Record<string, string | string[]>>

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
  return { series: `${name}${write(labels)}`, values }
}

/** An alert fires as a series of its own (Prometheus, "Inspecting alerts during runtime"). */
function toExpectation([key, expected]: [string, string | string[]]) {
  const [alertname = '', eval_time] = key.split(' at ')
  const firing = { alertname, alertstate: 'firing' }
  const heads = expected === 'silent' ? [] : `${expected}`.match(/\w+\{[^}]*\}/g)
  const exp_samples = heads?.map((head) => {
    const { name: severity, labels } = split(head)
    return { labels: `ALERTS${write({ ...firing, severity, ...labels })}`, value: 1 }
  })
  return { expr: `ALERTS${write(firing)}`, eval_time, exp_samples }
}

/** Writes labels as a series has them. */
const write = (labels: Record<string, string>) =>
  `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${value}"`)
    .join(', ')}}`

function readTests() {
  return readTable().map(({ case: name, every, ...others }) => {
    const entries = Object.entries(others)
    return {
      name,
      interval: every,
      input_series: entries.filter(([key]) => key.includes('{')).map(toSeries),
      promql_expr_test: entries.filter(([key]) => key.includes(' at ')).map(toExpectation)
    }
  })
}

process.stdout.write(
  stringify({
    rule_files: ['rules.yml'],
    evaluation_interval: '30s',
    // Otherwise promtool draws the order, and an alert may see the rates of the time before.
    group_eval_order: ['plant-store-objectives', 'plant-store'],
    tests: readTests()
  })
)
