/** `npm run simulate`: looks for a seed whose simulation breaks a rule, shows one, or measures how soon mutants are found. */
import { parseArgs } from 'node:util'
import { explore, replay } from './explore.ts'
import { known } from './known.ts'
import { mutants, withMutant } from './mutants.ts'
import type { Part } from './schedule.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    with: { type: 'string', multiple: true, default: [] },
    known: { type: 'boolean', default: false },
    mutants: { type: 'boolean', default: false }
  }
})
const seeds = Number(values.seeds)
const from = Number(values.from)
const without = (parts: readonly string[]): Part[] => known.filter((part) => !parts.includes(part))

/** Shows what happens in a seed, in short where it fails. */
async function show(seed: number) {
  const options = { known: without(values.with) }
  const whole = await replay(seed, false, options)
  const told = whole.violations?.length ? await replay(seed, true, options) : whole
  console.log(JSON.stringify(told.schedule, undefined, 1))
  console.log(told.trace?.join('\n'))
  for (const violation of whole.violations ?? []) console.log(violation)
  process.exitCode = whole.violations?.length ? 1 : 0
}

/** Prints how many seeds find each mutant, as a table. */
async function findMutants() {
  for (const mutant of mutants) {
    const { name, breaks } = mutant
    const { seed } = await withMutant(mutant, (src) => explore(seeds, { src, breaks }))
    console.log(`| ${name} | ${seed === undefined ? '' : (seed + 1).toLocaleString('en')} |`)
  }
}

async function findKnown() {
  for (const part of known) {
    const { seed, violations: [first] = [] } = await explore(seeds, { known: without([part]) })
    console.log(`${part}: ${seed === undefined ? 'every rule is kept' : `seed ${seed}: ${first}`}`)
  }
}

if (values.seed !== undefined) await show(Number(values.seed))
else if (values.mutants) await findMutants()
else if (values.known) await findKnown()
else {
  const { seed } = await explore(seeds, { known: without(values.with), from })
  console.log(seed === undefined ? `${seeds} seeds: every rule is kept` : `seed ${seed} fails`)
  if (seed !== undefined) await show(seed)
}
