/** `npm run bench`: chooses the benchmark by the first argument. */
const benchmarks = ['grow', 'around', 'citus', 'profile', 'waiting']
const [name = ''] = process.argv.slice(2)
await import(benchmarks.includes(name) ? `./${name}.ts` : './bench.ts')
