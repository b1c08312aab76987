/** `npm run bench -- NAME`: runs one benchmark, with the options after its name; without a name the standard one. */

const benchmarks: Record<string, () => Promise<unknown>> = {
  standard: () => import('./standard.ts'),
  cpu: () => import('./cpu/run.ts'),
  peers: () => import('./side-by-side/run.ts'),
  growth: () => import('./growth.ts'),
  overload: () => import('./overload.ts'),
  soak: () => import('./soak.ts'),
  'bad-rows': () => import('./bad-rows.ts'),
  container: () => import('./container.ts')
}

// Each benchmark reads the options that are left.
const hasName = process.argv[2] !== undefined && !process.argv[2].startsWith('--')
const [name = 'standard'] = hasName ? process.argv.splice(2, 1) : []
const run = benchmarks[name]
if (run === undefined) {
  throw new Error(`there is no benchmark ${name}, but ${Object.keys(benchmarks).join(', ')}`)
}
await run()
