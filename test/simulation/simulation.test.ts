/** The simulation of the write path: seeds that keep every rule, and proof that its judge would see one broken. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { explore, replay } from './explore.ts'
import { type LieName, lies } from './lies.ts'

/** This many seeds find each lie. */
const lieSeeds = 200
/** Longer than a seed takes, in ms. */
const endlessMs = 5_000

for (const from of [0, randomInt(2 ** 31)])
  t.test(`500 seeds from ${from} keep every rule`, async (t) => {
    t.strictSame(await explore(500, { from }), {}, 'npm run simulate -- --seed shows what happens')
  })

t.test('a seed repeats what happens', async (t) => {
  const [one, other] = await Promise.all([replay(1, false), replay(1, false)])
  t.ok(one.trace?.some((line) => line.includes('FAULT')))
  t.strictSame(one, other)
})

t.test('a service whose responses are false is found', async (t) => {
  for (const [lie, { finds }] of Object.entries(lies) as [LieName, { finds: RegExp }][]) {
    const { seed, violations = [] } = await explore(lieSeeds, {
      lie,
      breaks: finds,
      ...(lie === 'an endless loop' && { endlessMs })
    })
    t.ok(
      violations.some((violation) => finds.test(violation)),
      `${lie}: seed ${seed}`
    )
  }
})

t.test('a schedule that fails is made smaller', async (t) => {
  const lie = 'nothing stored, where it is'
  const { seed = 0 } = await explore(lieSeeds, { lie })
  const whole = await replay(seed, false, lie)
  const small = await replay(seed, true, lie)
  t.ok(small.violations?.length)
  t.ok((small.schedule?.orders.length ?? 0) < (whole.schedule?.orders.length ?? 0))
})
