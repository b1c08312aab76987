/** The simulation of the write path: seeds that keep every rule, and proof that it would see one broken. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { explore, replay } from './explore.ts'
import { mutants, withMutant } from './mutants.ts'

t.test('500 seeds keep every rule', async (t) => {
  t.strictSame(await explore(500), {}, 'npm run simulate -- --seed shows what happens')
})

t.test('a seed repeats what happens', async (t) => {
  const [one, other] = await Promise.all([replay(7, false), replay(7, false)])
  t.ok(one.trace?.some((line) => line.includes('FAULT')))
  t.strictSame(one, other)
})

t.test('a mutant is found, and its schedule made smaller', async (t) => {
  const mutant = mutants.find(({ name }) => name === '"has stored nothing" after an open attempt')
  if (!mutant) throw new Error('there is no such mutant')
  await withMutant(mutant, async (src) => {
    const { seed, violations } = await explore(500, { src, breaks: mutant.breaks })
    t.ok(violations?.some((violation) => mutant.breaks.test(violation)))
    const whole = await replay(seed ?? 0, false, src)
    const small = await replay(seed ?? 0, true, src)
    t.ok(small.violations?.length)
    t.ok((small.schedule?.orders.length ?? 0) < (whole.schedule?.orders.length ?? 0))
  })
})

t.test('each mutant is found at its seed, as docs/testing.md says', async (t) => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/testing.md'), 'utf8')
  for (const mutant of mutants) {
    const { name, seeds, breaks } = mutant
    const { violations = [] } = await withMutant(mutant, (src) => replay(seeds - 1, false, src))
    t.ok(
      violations.some((violation) => breaks.test(violation)),
      `${name}: \`npm run simulate -- --mutants\` counts its seeds`
    )
    t.match(page, `| ${name} | ${seeds.toLocaleString('en')} |\n`)
  }
})
