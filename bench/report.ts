/** Where results go: the terminal, docs/performance.json, and some of them docs/performance.md between markers. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The directory of the documents. */
export const docs = join(import.meta.dirname, '../docs')

/** The name of a benchmark, of its markers on the page, and of its part of the JSON. */
export type Section = 'bench' | 'cpu' | 'growth' | 'soak' | 'overload' | 'peers'

/** Those that the page shows. */
const shown: Section[] = ['bench', 'peers']

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
    if (shown.includes(section)) await writeDocument(section, text)
    await writeData(section, data)
  }
}

async function writeDocument(section: Section, text: string) {
  const file = join(docs, 'performance.md')
  const [begin, end] = [`<!-- ${section}:begin -->`, `<!-- ${section}:end -->`]
  const document = await readFile(file, 'utf8')
  const [from, to] = [document.indexOf(begin), document.indexOf(end)]
  if (from === -1 || to < from) throw new Error(`performance.md has lost its markers for ${section}`)
  await writeFile(file, `${document.slice(0, from)}${begin}\n\n${text}\n\n${document.slice(to)}`)
}

async function writeData(section: Section, data: object) {
  const file = join(docs, 'performance.json')
  const all = JSON.parse(await readFile(file, 'utf8').catch(() => '{}'))
  await writeFile(file, formatData({ ...all, [section]: data }))
}

/** Writes the data with one line for each result: a run changes a few lines, not thousands. */
const formatData = (data: object) => {
  const sections = Object.entries(data).map(([name, section]) => {
    const lines = JSON.stringify(section).replaceAll('},{', '},\n{')
    return `${JSON.stringify(name)}: ${lines}`
  })
  return `{\n${sections.join(',\n')}\n}\n`
}
