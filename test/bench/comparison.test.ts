/** The comparison of two revisions: ratios round by round, and when one counts as worse. */
import t from 'tap'
import { compareRounds, judge } from '../../bench/compare.ts'

t.test('rounds are compared in pairs: a machine that becomes slower changes no ratio', async (t) => {
  t.strictSame(compareRounds([11, 22, 44], [10, 20, 40]), { rounds: 3, median: 1.1, least: 1.1, most: 1.1 })
  t.strictSame(
    compareRounds([1, 3], [2, 2]),
    { rounds: 2, median: 1, least: 0.5, most: 1.5 },
    'few rounds: the range of all'
  )
})

t.test('with many rounds, the range leaves out what lies outside of 95 % for the median', async (t) => {
  const ones = Array.from({ length: 24 }, () => 1)
  const ascending = ones.map((_, index) => index + 1)
  t.strictSame(compareRounds(ascending, ones), { rounds: 24, median: 12.5, least: 7, most: 18 })
})

t.test('a figure is worse or better only in six rounds, where range and noise do not meet', async (t) => {
  const range = (least: number, most: number, rounds = 6) => ({
    rounds,
    median: (least + most) / 2,
    least,
    most
  })
  t.equal(judge(range(1.05, 1.1), range(0.97, 1.04), false), 'worse')
  t.equal(judge(range(1.05, 1.1), range(0.97, 1.04), true), 'better')
  t.equal(judge(range(0.9, 0.95), range(0.97, 1.04), true), 'worse')
  t.equal(judge(range(0.9, 0.95), range(0.97, 1.04), false), 'better')
  t.equal(judge(range(1.04, 1.1), range(0.97, 1.04), false), '')
  t.equal(judge(range(0.9, 1.2), range(0.97, 1.04), true), '')
  t.equal(judge(range(1.05, 1.1, 5), range(0.97, 1.04), false), '', 'five rounds say nothing')
})
