/** `npm run simulate`: looks for a seed whose simulation breaks a rule, or shows one. */
import { parseArgs } from 'node:util'
import { explore, replay } from './explore.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '0' },
    seed: { type: 'string' }
  }
})
const seeds = Number(values.seeds)
const from = Number(values.from)

/** Shows what happens in a seed, or in its smallest schedule that fails. */
async function show(seed: number) {
  const whole = await replay(seed, false)
  const small = whole.violations?.length ? await replay(seed, true) : whole
  // One that never ends has no schedule and no trace.
  const { schedule, trace } = small.trace ? small : whole
  if (trace) console.log([JSON.stringify(schedule, undefined, 1), ...trace].join('\n'))
  for (const violation of whole.violations ?? []) console.log(violation)
  process.exitCode = whole.violations?.length ? 1 : 0
}

if (values.seed !== undefined) await show(Number(values.seed))
else {
  const { seed } = await explore(seeds, { from })
  console.log(seed === undefined ? `${seeds} seeds: every rule is kept` : `seed ${seed} fails`)
  if (seed !== undefined) await show(seed)
}
