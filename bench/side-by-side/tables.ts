/** The comparison as tables. */
import type { Figures } from '../measure.ts'
import { formatNumber, formatTable } from '../report.ts'
import type { Row } from './cases.ts'
import type { Fact } from './facts.ts'
import type { Installed } from './install.ts'

/** All that is known of one contestant. */
export interface Result {
  title: string
  installed: Installed
  /** From the start of the process to the first 200, in ms. */
  startUpMs: number
  /** Its figures at each number of connections. */
  load: (Figures & { connections: number })[]
  facts: Fact[]
}

/** Formats the figures under load, one table for each number of connections. */
export function formatLoad(results: Result[]): string {
  const all = results.flatMap(({ load }) => load.map(({ connections }) => connections))
  return [...new Set(all)].map((connections) => formatLoadAt(results, connections)).join('\n\n')
}

function formatLoadAt(results: Result[], connections: number): string {
  const at = ({ load }: Result) => load.find((figures) => figures.connections === connections)
  const own = results[0] && at(results[0])
  const head = [
    `${connections} connection${connections === 1 ? '' : 's'}`,
    'plants/s',
    'this service ÷ it',
    'p50 ms',
    'p99 ms',
    'server CPU µs/plant',
    'PostgreSQL CPU µs/plant',
    'peak MiB',
    'errors'
  ]
  const lines = results.map((result) => {
    const figures = at(result)
    const format = (figure: keyof Figures, digits: number) =>
      formatNumber(figures?.[figure] ?? Number.NaN, digits)
    return [
      result.title,
      format('plantsPerSecond', 0),
      formatNumber((own?.plantsPerSecond ?? Number.NaN) / (figures?.plantsPerSecond ?? Number.NaN), 2),
      format('p50Ms', 2),
      format('p99Ms', 2),
      format('serverCpuUs', 1),
      format('databaseCpuUs', 1),
      format('peakMiB', 0),
      format('errors', 0)
    ]
  })
  return formatTable([head, ...lines])
}

/** Formats what has nothing to do with load. */
export function formatFootprint(results: Result[]): string {
  const head = ['', 'first 200 after, ms', 'production dependencies, MB', 'packages']
  const lines = results.map(({ title, startUpMs, installed }) => [
    title,
    formatNumber(startUpMs, 0),
    formatNumber(installed.megabytes, 1),
    formatNumber(installed.packages, 0)
  ])
  return formatTable([head, ...lines])
}

/** Formats the facts, a line for each case, and how many of them are good. */
export function formatFacts(results: Result[]): string {
  const lines = (results[0]?.facts ?? []).map((first, index) => [
    first.case,
    ...results.map(({ facts }) => formatFact(facts[index]))
  ])
  const count = (among: (fact: Fact) => boolean, is: (fact: Fact) => boolean) =>
    results.map(({ facts }) => {
      const some = facts.filter(among)
      return `${some.filter(is).length} of ${some.length}`
    })
  const kept = count(
    () => true,
    ({ keepsInterface }) => keepsInterface
  )
  const created = count(
    ({ isValid }) => isValid,
    ({ isCreated }) => isCreated
  )
  const head = ['', ...results.map(({ title }) => title)]
  const sums = [
    ['**keeps the interface**', ...kept],
    ['**creates what a valid request asks for**', ...created]
  ]
  return formatTable([head, ...lines, ...sums], 'left')
}

function formatFact(fact: Fact | undefined): string {
  if (!fact) return 'n/a'
  const stored = {
    nothing: 'nothing stored',
    'the plant': 'stored',
    'something else': `stored: ${fact.rows.map(formatRow).join(', ') || 'no row'}`
  }
  return `${fact.keepsInterface ? '✓' : '✗'} ${formatResponse(fact)}; ${stored[fact.stored]}`
}

function formatResponse({ outcome, answer }: Fact): string {
  if ('failure' in outcome) return `no response (${outcome.failure})`
  const { status, body } = outcome
  if (answer === 'Plant') return String(status)
  if (answer === 'Error') return `${status}, error ${JSON.parse(body).error}`
  return `${status} \`${body.slice(0, 80).replaceAll('|', '\\|')}\``
}

function formatRow({ id, name, tag }: Row): string {
  return `\`${JSON.stringify([id, name, tag])}\``
}
