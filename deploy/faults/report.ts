/** Compares what clients were told with what is stored, and prints the table. */
import { deriveWriteId } from '../../src/plants/write-id.ts'
import { type Create, keyOf, plantOf } from './load.ts'

/** A row of the table `plants`. */
export interface StoredPlant {
  id: number
  name: string
  tag: string | null
  write_id: string
}

/** The query for the plants whose ids are in a range: a row of JSON each, as a StoredPlant. */
export const selectPlants = (firstId: number, lastId: number) => `
  select json_build_object('id', id, 'name', name, 'tag', tag, 'write_id', write_id)
  from plants where id between ${firstId} and ${lastId}`

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
  'slowest answer': string
}

/** What a fault has shown: its line, and everything that must not be. */
export interface Finding {
  line: Line
  violations: string[]
}

const shown = 5

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
  const stored = new Map(rows.map((row) => [row.id, row]))
  const sent = new Set(creates.map(({ id }) => id))
  const acknowledged = creates.filter(({ error }) => error === 0)
  const failed = creates.filter(({ error }) => error !== 0)
  const lost = acknowledged.filter(({ id }) => !stored.has(id))
  const changed = rows.filter((row) => !isAsSent(row, caller))
  const longestPauseMs = findLongestPause(creates)
  const strange = rows.filter(({ id }) => !sent.has(id))
  const violations = [
    ...list('acknowledged, but not stored', lost),
    ...list('stored with other content, or by another write', changed),
    ...list('stored, but never sent', strange),
    ...list('stored twice', rows.length === stored.size ? [] : rows),
    ...list('a client saw an error', failed),
    ...(longestPauseMs >= deadlineMs ? [`nothing was acknowledged for ${seconds(longestPauseMs)}`] : []),
    ...(acknowledged.length === 0 ? ['no create succeeded'] : [])
  ].map((violation) => `${fault}: ${violation}`)
  return {
    line: {
      fault,
      requests: creates.length,
      acknowledged: acknowledged.length,
      stored: rows.length,
      errors: failed.length,
      'sent again': creates.reduce((sum, { repeats }) => sum + repeats, 0),
      'longest pause': seconds(longestPauseMs),
      'slowest answer': seconds(Math.max(0, ...creates.map(({ began, ended }) => ended - began)))
    },
    violations
  }
}

function isAsSent(row: StoredPlant, caller: string): boolean {
  const { name, tag = null } = plantOf(row.id)
  return row.name === name && row.tag === tag && row.write_id === deriveWriteId(caller, keyOf(row.id))
}

/** The longest time between two acknowledgements, before the first, or behind the last. */
function findLongestPause(creates: Create[]): number {
  const acknowledged = creates.filter(({ error }) => error === 0).map(({ ended }) => ended)
  const first = creates.reduce((least, { began }) => Math.min(least, began), Number.POSITIVE_INFINITY)
  const last = creates.reduce((most, { ended }) => Math.max(most, ended), Number.NEGATIVE_INFINITY)
  const times = [first, ...acknowledged.sort((a, b) => a - b), last]
  return Math.max(0, ...times.slice(1).map((to, index) => to - (times[index] as number)))
}

function list(what: string, found: readonly object[]): string[] {
  return found.length === 0 ? [] : [`${what} (${found.length}): ${JSON.stringify(found.slice(0, shown))}`]
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
