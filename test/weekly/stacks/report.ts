/** Judges what a fault has done to clients and rows, and prints the table. */
import type { Operation, StoredRow } from '../../support/histories/history.ts'
import { judgeHistory } from '../../support/histories/judge.ts'
import type { History } from '../../support/histories/rivals.ts'
import type { Interval } from './schedule.ts'

/** A line of the printed table. */
export interface Line {
  fault: string
  requests: number
  acknowledged: number
  stored: number
  errors: number
  'sent again': number
  /** The longest time without an acknowledgement to any client. */
  'longest pause': string
  /** The longest time from a request to its response. */
  'slowest response': string
}

/** What a fault has shown: its line, and all violations. */
export interface Finding {
  line: Line
  violations: string[]
}

interface Evidence {
  fault: string
  history: History
  /** Everything that is stored under the ids of the load. */
  rows: StoredRow[]
  /** The service's WRITE_DEADLINE_MS. */
  deadlineMs: number
  /** How long creates may take to succeed again after a foreseen outage, in ms. */
  graceMs: number
  outages?: Outages | undefined
}

/** When creates need not succeed, in order, and when everything was healed, in ms of `performance.now()`. */
export interface Outages {
  outages: Interval[]
  healed: number
  /** When none can succeed, nor be compared with what is stored: each gets a 503. */
  standstill?: Interval
}

/**
 * Judges the requests of one fault by the rows of their ids: one order explains them all, and no create failed. That is
 * promised of outages shorter than the write deadline: a longer one is a violation itself, and excuses nothing, unless it
 * was foreseen. Then the creates that meet it may fail, and must succeed again soon after everything is healed.
 */
export function judge({ fault, history, rows, deadlineMs, graceMs, outages }: Evidence): Finding {
  const { operations, failed, repeats } = history
  const acknowledged = operations.filter(isAcknowledged)
  const pauses = findPauses(operations)
  const longestPauseMs = findLongest(pauses)
  const unforeseenMs = outages
    ? findLongest(pauses.flatMap((pause) => without(pause, outages.outages)))
    : longestPauseMs
  const unexcused = failed.filter(({ began, ended = began + deadlineMs }) =>
    (outages?.outages ?? []).every(({ from, to }) => ended < from || began > to)
  )
  const recoveryMs = outages ? findRecovery(acknowledged, outages.healed) : 0
  return {
    line: {
      fault,
      requests: operations.length,
      acknowledged: acknowledged.length,
      stored: rows.length,
      errors: failed.length,
      'sent again': repeats,
      'longest pause': seconds(longestPauseMs),
      'slowest response': seconds(
        operations.reduce((most, { began, ended = 0 }) => Math.max(most, ended - began), 0)
      )
    },
    violations: [
      ...shorten(judgeHistory(operations, rows)),
      ...shorten(unexcused.map((operation) => `a client saw an error: ${JSON.stringify(operation)}`)),
      ...shorten(findMoves(operations, outages?.standstill)),
      ...(unforeseenMs >= deadlineMs ? [`nothing was acknowledged for ${seconds(unforeseenMs)}`] : []),
      ...(recoveryMs > graceMs
        ? [`nothing was acknowledged until ${seconds(recoveryMs)} after the end`]
        : []),
      ...(acknowledged.length === 0 ? ['no create succeeded'] : [])
    ].map((violation) => `${fault}: ${violation}`)
  }
}

/** The times between two acknowledgements, before the first, and after the last. */
function findPauses(operations: Operation[]): Interval[] {
  const acknowledged = operations.filter(isAcknowledged).map(({ ended }) => ended as number)
  let from = operations.reduce((least, { began }) => Math.min(least, began), Number.POSITIVE_INFINITY)
  const last = operations.reduce((most, { ended = 0 }) => Math.max(most, ended), 0)
  return [...acknowledged.sort((a, b) => a - b), last].map((to) => {
    const pause = { from, to }
    from = to
    return pause
  })
}

/** Returns the parts of an interval that are in none of the others. */
function without({ from, to }: Interval, others: Interval[]): Interval[] {
  const left: Interval[] = []
  for (const other of others.filter((each) => each.to > from && each.from < to)) {
    if (other.from > from) left.push({ from, to: other.from })
    from = other.to
  }
  return from < to ? [...left, { from, to }] : left
}

const findLongest = (intervals: Interval[]) =>
  intervals.reduce((most, { from, to }) => Math.max(most, to - from), 0)

const findRecovery = (acknowledged: Operation[], healed: number) =>
  acknowledged.reduce(
    (least, { ended = 0 }) => (ended < healed ? least : Math.min(least, ended - healed)),
    Number.POSITIVE_INFINITY
  )

/** The creates that begin and end in a standstill with another response than a 503. */
const findMoves = (operations: Operation[], { from, to }: Interval = { from: 0, to: 0 }) =>
  operations
    .filter(({ began, ended = 0 }) => began >= from && ended > from && ended <= to)
    .filter(({ response }) => response && !('error' in response.body && response.body.error === 503))
    .map((operation) => `a create did not get its 503: ${JSON.stringify(operation)}`)

const isAcknowledged = ({ response }: Operation) => response?.status === 200

const shown = 5

function shorten(lines: string[]): string[] {
  return lines.length <= shown ? lines : [...lines.slice(0, shown), `and ${lines.length - shown} more`]
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`

/** The end of the name of a round in which nothing excuses a pause. */
export const withMajority = ', a majority is left'

/** Sums up the rounds of a seed as a row of a table; undefined without a seed. */
export function toRow(stack: string, lines: Line[], wrong: number): string | undefined {
  const rounds = lines.filter(({ fault }) => fault.startsWith('seed '))
  const [, seed] = /^seed (\d+),/.exec(rounds[0]?.fault ?? '') ?? []
  if (seed === undefined) return undefined
  const sum = (name: 'requests' | 'acknowledged' | 'sent again') =>
    rounds.reduce((total, line) => total + line[name], 0).toLocaleString('en')
  const longest = (some: Line[]) =>
    some.length === 0
      ? ''
      : `${Math.max(...some.map((line) => Number.parseFloat(line['longest pause']))).toFixed(1)} s`
  const [gentle, others] = [true, false].map((is) =>
    rounds.filter(({ fault }) => fault.endsWith(withMajority) === is)
  ) as [Line[], Line[]]
  const cells = [
    ...[stack, seed, rounds.length, sum('requests'), sum('acknowledged'), sum('sent again')],
    ...[longest(gentle), longest(others), wrong]
  ]
  return `| ${cells.join(' | ')} |`
}

/** Writes lines as a Markdown table. */
export function toTable(lines: Line[]): string {
  const names = Object.keys(lines[0] ?? {}) as (keyof Line)[]
  const table = [
    names,
    names.map(() => '---'),
    ...lines.map((line) => names.map((name) => String(line[name])))
  ]
  const widths = names.map((_, column) => Math.max(...table.map((cells) => (cells[column] ?? '').length)))
  const pad = (cell: string, column: number) =>
    column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)
  const text = table.map((cells) => `| ${cells.map(pad).join(' | ')} |`)
  text[1] = `|${widths.map((width, column) => '-'.repeat(width + 1) + (column === 0 ? '-' : ':')).join('|')}|`
  return text.join('\n')
}
