/** Where results go: the terminal, docs/performance.json, and the pages that are generated from it. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { execute } from '../test/support/execute.ts'
import { readSources } from './figures.ts'

/** The name of a benchmark's part of the JSON. */
export type Section = 'bench' | 'cpu' | 'growth' | 'neighbours' | 'peers'

/** Formats a table of Markdown, all columns but the first to the right. */
export function formatTable([head = [], ...rows]: string[][]): string {
  const line = (cells: string[]) => `|${cells.join('|')}|`
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'))
  return [head, rule, ...rows].map(line).join('\n')
}

/** Formats a number with that many digits after the point; what is not known as n/a. */
export function formatNumber(value: number, digits: number): string {
  if (Number.isNaN(value)) return 'n/a'
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** Prints a result and, unless it is a quick one, writes it into the docs. Errors make it void: nothing is written. */
export async function publish(
  section: Section,
  { text, data, errors, isQuick }: { text: string; data: object; errors: number; isQuick: boolean }
): Promise<void> {
  process.stdout.write(`\n${text}\n\n`)
  if (errors > 0) {
    process.stdout.write(`void: ${errors} requests failed or were lost\n`)
    process.exitCode = 1
  } else if (isQuick) {
    process.stdout.write('a quick run: the docs stay as they are\n')
  } else {
    await writeData(section, data)
    await execute(process.execPath, [join(import.meta.dirname, '../dev/generate.ts')])
  }
}

async function writeData(section: Section, data: object) {
  const file = join(import.meta.dirname, '../docs/performance.json')
  const all = JSON.parse(await readFile(file, 'utf8').catch(() => '{}'))
  await writeFile(file, formatData({ ...all, [section]: { sources: readSources(), ...data } }))
}

/** Writes the data with one line for each result: a run changes a few lines, not thousands. */
const formatData = (data: object) => {
  const sections = Object.entries(data).map(([name, section]) => {
    const lines = JSON.stringify(section).replaceAll('},{', '},\n{')
    return `${JSON.stringify(name)}: ${lines}`
  })
  return `{\n${sections.join(',\n')}\n}\n`
}
