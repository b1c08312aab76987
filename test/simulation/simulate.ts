/** `npm run simulate`: looks for a seed whose simulation breaks a rule, shows one, or measures how soon mutants are found. */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { execute } from '../../dev/execute.ts'
import { explore, replay } from './explore.ts'
import { mutants, withMutant } from './mutants.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' },
    mutants: { type: 'boolean', default: false }
  }
})
const seeds = Number(values.seeds)
const from = Number(values.from)

/** Shows what happens in a seed, or in its smallest schedule that fails. */
async function show(seed: number) {
  const whole = await replay(seed, false)
  const shown = whole.violations?.length ? await replay(seed, true) : whole
  console.log(JSON.stringify(shown.schedule, undefined, 1))
  console.log(shown.trace?.join('\n'))
  for (const violation of whole.violations ?? []) console.log(violation)
  process.exitCode = whole.violations?.length ? 1 : 0
}

/** Returns whether a test passes in a copy of the project; it finds its server in TEST_DATABASE_URL. */
const passes = (test: string, project: string) =>
  execute(process.execPath, [join(project, 'test', `${test}.test.ts`)], { env: { TAP_TIMEOUT: '600' } }).then(
    () => true,
    () => false
  )

/** Prints how many seeds find each mutant: what no seed finds must be found by a test that passes without the mutant. */
async function findMutants() {
  for (const { name, breaks, edits, test } of mutants) {
    const found = await withMutant({ edits }, async (project) => {
      const { seed } = await explore(seeds, { src: join(project, 'src'), breaks })
      if (seed !== undefined) return (seed + 1).toLocaleString('en')
      if (test === undefined || (await passes(test, project))) return undefined
      return (await withMutant({ edits: [] }, (whole) => passes(test, whole))) ? `\`${test}\`` : undefined
    })
    console.log(`| ${name} | ${found ?? 'not found'} |`)
    if (found === undefined) process.exitCode = 1
  }
}

if (values.seed !== undefined) await show(Number(values.seed))
else if (values.mutants) await findMutants()
else {
  const { seed } = await explore(seeds, { from })
  console.log(seed === undefined ? `${seeds} seeds: every rule is kept` : `seed ${seed} fails`)
  if (seed !== undefined) await show(seed)
}
