/** The rate limit: how many requests each caller may make in a second. */
import t from 'tap'
import { createRateLimit } from '../src/plugins/auth.ts'

/** When requests come, in ms, and how many are left after each: `-` for one that is refused. */
const sequences: [title: string, perSecond: number, steps: string][] = [
  ['a full bucket holds a second of requests', 3, '0: 2 1 0 - -'],
  ['it gains one after its part of a second, and no sooner', 4, '0: 3 2 1 0, 249: -, 250: 0 -'],
  ['a refused request takes nothing', 4, '0: 3 2 1 0 - - -, 100: -, 500: 1 0 -'],
  ['part of a request is kept until it is whole', 2, '0: 1 0, 300: -, 700: 0, 1000: 0 -'],
  ['after a second it is full again', 3, '0: 2 1 0 -, 1000: 2 1 0 -'],
  ['a long rest fills it no further', 3, '0: 2, 1000000000: 2 1 0 -'],
  ['one request a second', 1, '0: 0 -, 999: -, 1000: 0 -']
]

for (const [title, perSecond, steps] of sequences)
  t.test(`${title}: ${perSecond} a second`, async (t) => {
    let ms = 5_000
    const take = createRateLimit(perSecond, { now: () => ms })
    for (const step of steps.split(', ')) {
      const [at, ...left] = step.split(/:? /)
      ms = 5_000 + Number(at)
      const found = left.map(() => `${take('a') ?? '-'}`)
      t.strictSame(found, left, `after ${at} ms`)
    }
    t.equal(take('b'), perSecond - 1, 'another caller has a bucket of its own')
  })

t.test('of requests without end, any one second lets through fewer than twice the limit', async (t) => {
  for (const perSecond of [1, 3, 10, 1_000]) {
    let ms = 0
    const take = createRateLimit(perSecond, { now: () => ms })
    const granted: number[] = []
    for (; ms < 2_500; ms += 0.25) while (take('a') !== undefined) granted.push(ms)
    const within = granted.map((from, index) => granted.slice(index).filter((at) => at < from + 1_000).length)
    t.equal(Math.max(...within), 2 * perSecond - 1, `${perSecond} a second`)
  }
})
