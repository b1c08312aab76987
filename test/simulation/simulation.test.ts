/** The simulation of the write path: seeds that keep every rule. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { explore } from './explore.ts'

for (const from of [0, randomInt(2 ** 31)])
  t.test(`500 seeds from ${from} keep every rule`, async (t) => {
    t.strictSame(await explore(500, { from }), {}, 'npm run simulate -- --seed shows what happens')
  })
