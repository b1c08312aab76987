/** Judges what a fault has done to clients and rows, and prints the table. */
import type { Operation, StoredRow } from '../../dev/histories/history.ts'
import { judgeHistory } from '../../dev/histories/judge.ts'
import type { History } from '../../dev/histories/rivals.ts'

/** A line of the printed table. */
export interface Line {
  fault: string
  requests: number
  acknowledged: number
  stored: number
  errors: number
  'sent again': number
  /** The longest time without an acknowledgement, whoever got the others. */
  'longest pause': string
  /** The longest time from a request to its response. */
  'slowest response': string
}

/** What a fault has shown: its line, and everything that must not be. */
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
}

/**
 * Judges the requests of one fault by the rows of their ids: one order explains them all, and no create failed. That is
 * promised of outages shorter than the write deadline: a longer one is a violation itself, and excuses nothing.
 */
export function judge({ fault, history, rows, deadlineMs }: Evidence): Finding {
  const { operations, failed, repeats } = history
  const acknowledged = operations.filter(isAcknowledged)
  const longestPauseMs = findLongestPause(operations)
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
      ...shorten(failed.map((operation) => `a client saw an error: ${JSON.stringify(operation)}`)),
      ...(longestPauseMs >= deadlineMs ? [`nothing was acknowledged for ${seconds(longestPauseMs)}`] : []),
      ...(acknowledged.length === 0 ? ['no create succeeded'] : [])
    ].map((violation) => `${fault}: ${violation}`)
  }
}

/** The longest time between two acknowledgements, before the first, or behind the last. */
function findLongestPause(operations: Operation[]): number {
  const acknowledged = operations.filter(isAcknowledged).map(({ ended }) => ended as number)
  const first = operations.reduce((least, { began }) => Math.min(least, began), Number.POSITIVE_INFINITY)
  const last = operations.reduce((most, { ended = 0 }) => Math.max(most, ended), Number.NEGATIVE_INFINITY)
  let longest = 0
  let previous = first
  for (const time of [...acknowledged.sort((a, b) => a - b), last]) {
    longest = Math.max(longest, time - previous)
    previous = time
  }
  return longest
}

const isAcknowledged = ({ response }: Operation) => response?.status === 200

const shown = 5

function shorten(lines: string[]): string[] {
  return lines.length <= shown ? lines : [...lines.slice(0, shown), `and ${lines.length - shown} more`]
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`

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
