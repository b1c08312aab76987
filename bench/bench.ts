/**
 * `npm run bench -- NAME...`: runs benchmarks, with the options after their names; without a name, those whose figures the
 * pages show. `compare` takes a revision.
 */
import { shown } from './figures.ts'

const benchmarks: Record<string, (revision?: string) => Promise<unknown>> = {
  standard: () => import('./standard.ts'),
  compare: async (revision) => (await import('./compare.ts')).compare(revision),
  cpu: () => import('./cpu/run.ts'),
  peers: () => import('./side-by-side/run.ts'),
  neighbours: () => import('./neighbours.ts'),
  growth: () => import('./growth.ts')
}

// Each benchmark reads the options that are left.
const names: string[] = []
let revision: string | undefined
while (process.argv[2] && !process.argv[2].startsWith('--')) {
  const [word] = process.argv.splice(2, 1)
  if (names.at(-1) === 'compare' && revision === undefined) revision = word
  else names.push(word as string)
}
const unknown = names.find((name) => !Object.hasOwn(benchmarks, name))
if (unknown !== undefined) {
  throw new Error(`there is no benchmark ${unknown}, but ${Object.keys(benchmarks).join(', ')}`)
}
for (const name of names.length > 0 ? names : Object.keys(shown)) await benchmarks[name]?.(revision)
