/** Judges what a fault has done to clients and rows, and prints the table. */
import type { Create } from '../../dev/load.ts'
import { compare, list, type StoredPlant } from '../../dev/stored.ts'

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
  /** The longest time from a create's first request to its response. */
  'slowest response': string
}

/** What a fault has shown: its line, and everything that must not be. */
export interface Finding {
  line: Line
  violations: string[]
}

interface Evidence {
  fault: string
  /** Whose the token of the load is. */
  caller: string
  creates: Create[]
  /** Everything that is stored under the ids of the load. */
  rows: StoredPlant[]
  /** The service's WRITE_DEADLINE_MS. */
  deadlineMs: number
}

/**
 * Judges the creates of one fault by the rows of their ids: each acknowledged plant is stored with its content and the
 * write id of its key, nothing is stored twice or that nobody sent, and no client saw an error. That is promised of
 * outages shorter than the write deadline: a longer one is a violation itself, and excuses nothing.
 */
export function judge({ fault, caller, creates, rows, deadlineMs }: Evidence): Finding {
  const { acknowledged, failed, violations } = compare(creates, rows, caller)
  const longestPauseMs = findLongestPause(creates)
  return {
    line: {
      fault,
      requests: creates.length,
      acknowledged: acknowledged.length,
      stored: rows.length,
      errors: failed.length,
      'sent again': creates.reduce((sum, { repeats }) => sum + repeats, 0),
      'longest pause': seconds(longestPauseMs),
      'slowest response': seconds(Math.max(0, ...creates.map(({ began, ended }) => ended - began)))
    },
    violations: [
      ...violations,
      ...list('a client saw an error', failed),
      ...(longestPauseMs >= deadlineMs ? [`nothing was acknowledged for ${seconds(longestPauseMs)}`] : []),
      ...(acknowledged.length === 0 ? ['no create succeeded'] : [])
    ].map((violation) => `${fault}: ${violation}`)
  }
}

/** The longest time between two acknowledgements, before the first, or behind the last. */
function findLongestPause(creates: Create[]): number {
  const acknowledged = creates.filter(({ error }) => error === 0).map(({ ended }) => ended)
  const first = creates.reduce((least, { began }) => Math.min(least, began), Number.POSITIVE_INFINITY)
  const last = creates.reduce((most, { ended }) => Math.max(most, ended), Number.NEGATIVE_INFINITY)
  const times = [first, ...acknowledged.sort((a, b) => a - b), last]
  return Math.max(0, ...times.slice(1).map((to, index) => to - (times[index] as number)))
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
