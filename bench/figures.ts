/** Of which sources the pages' figures are. As a program, it fails where they are of others: the release runs it. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()

/** The benchmarks whose figures the pages show, with the names of their parts of docs/performance.json. */
export const shown = {
  standard: 'bench',
  growth: 'growth',
  peers: 'peers',
  neighbours: 'neighbours'
} as const

/** Returns the number that Git gives to the folder src: it changes with each file. Undefined where src has uncommitted changes. */
export const readSources = (): string | undefined =>
  git('status', '--porcelain', 'src') === '' ? git('rev-parse', 'HEAD:src') : undefined

/** Returns the benchmarks that must be run again, because their figures are of other sources. */
export const findStale = (figures: Partial<Record<string, { sources?: string }>>, sources: string) =>
  Object.entries(shown)
    .filter(([, section]) => figures[section]?.sources !== sources)
    .map(([name]) => name)

if (import.meta.main) {
  const figures = JSON.parse(readFileSync(join(root, 'docs/performance.json'), 'utf8'))
  const stale = findStale(figures, git('rev-parse', 'HEAD:src'))
  if (stale.length > 0) {
    process.stderr.write(`figures of earlier sources: npm run bench -- ${stale.join(' ')}\n`)
    process.exitCode = 1
  }
}
