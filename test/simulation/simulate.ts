/** `npm run simulate`: looks for a seed whose simulation breaks a rule, shows one, or measures how soon mutants are found. */
import { parseArgs } from 'node:util'
import { explore, replay } from './explore.ts'
import { mutants, withMutant } from './mutants.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    seed: { type: 'string' },
    mutants: { type: 'boolean', default: false }
  }
})
const seeds = Number(values.seeds)

/** Shows what happens in a seed, in short where it fails. */
async function show(seed: number) {
  const whole = await replay(seed, false)
  const told = whole.violations?.length ? await replay(seed, true) : whole
  console.log(JSON.stringify(told.schedule, undefined, 1))
  console.log(told.trace?.join('\n'))
  for (const violation of whole.violations ?? []) console.log(violation)
  process.exitCode = whole.violations?.length ? 1 : 0
}

if (values.seed !== undefined) await show(Number(values.seed))
else if (values.mutants) {
  for (const mutant of mutants) {
    const { name, breaks } = mutant
    const { seed, violations } = await withMutant(mutant, (src) => explore(seeds, { src, breaks }))
    const found =
      seed === undefined
        ? 'NOT FOUND'
        : `${seed + 1} seeds: ${violations?.find((violation) => breaks.test(violation))}`
    console.log(`${name}: ${found}`)
    if (seed === undefined) process.exitCode = 1
  }
} else {
  const { seed } = await explore(seeds)
  console.log(seed === undefined ? `${seeds} seeds: every rule is kept` : `seed ${seed} fails`)
  if (seed !== undefined) await show(seed)
}
