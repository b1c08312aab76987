/** Half a minute of the adversary: the process lives, its good clients are served, and nothing is held afterwards. */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { readOptions, runAdversary } from './adversary.ts'

const {
  ADVERSARY_SEED = String(randomInt(2 ** 31)),
  ADVERSARY_MINUTES = '0.5',
  ADVERSARY_KINDS
} = process.env
const options = readOptions(ADVERSARY_SEED, ADVERSARY_MINUTES, ADVERSARY_KINDS)

t.test('whatever clients hold, others are served, and nothing is left', { timeout: 0 }, async (t) => {
  const { faults, summary } = await runAdversary(t, options)
  t.comment(summary)
  t.strictSame(faults, [], `--seed ${options.seed} --minutes ${ADVERSARY_MINUTES} --kinds '${options.kinds}'`)
})
