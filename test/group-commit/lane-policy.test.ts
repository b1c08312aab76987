/** The lane policy: what a free lane takes, by what waits and what runs. */
import t from 'tap'
import { LanePolicy } from '../../src/group-commit/lane-policy.ts'
import type { Kind } from '../../src/group-commit/row.ts'

const all: Kind[] = ['lookUp', 'newRows', 'firstTrial', 'longTrial']

/** A policy for three lanes, or as many as given, with attempts of these kinds under way. */
function setUp(running: Kind[] = [], lanes = 3) {
  const policy = new LanePolicy({ lanes, batchRows: 256 })
  for (const kind of running) policy.begin(kind)
  return policy
}
const choose = (policy: LanePolicy, ...waiting: Kind[]) => policy.choose((kind) => waiting.includes(kind))

t.test('while everything waits, every second attempt is a first trial, the others take turns', async (t) => {
  const policy = setUp()
  const taken = Array.from({ length: 7 }, () => {
    const kind = choose(policy, ...all) as Kind
    policy.begin(kind)
    policy.end(kind, 1, true, 0)
    return kind
  })
  t.same(taken, ['firstTrial', 'lookUp', 'firstTrial', 'newRows', 'firstTrial', 'longTrial', 'firstTrial'])
})

t.test('what may start, by what runs', async (t) => {
  const cases: [lanes: number, running: Kind[], waiting: Kind[], taken: Kind | undefined][] = [
    [3, [], [], undefined],
    [3, ['newRows', 'newRows'], ['newRows'], 'newRows'],
    [3, ['lookUp'], ['lookUp'], undefined],
    [3, ['firstTrial'], ['firstTrial'], 'firstTrial'],
    [3, ['firstTrial', 'firstTrial'], ['firstTrial', 'longTrial'], undefined],
    [3, ['firstTrial', 'firstTrial'], all, 'lookUp'],
    [3, ['longTrial'], ['longTrial'], undefined],
    [3, ['longTrial'], ['firstTrial'], 'firstTrial'],
    [2, ['longTrial'], ['firstTrial'], undefined],
    [1, [], ['longTrial'], 'longTrial']
  ]
  for (const [lanes, running, waiting, taken] of cases)
    t.equal(choose(setUp(running, lanes), ...waiting), taken, `${lanes} lanes, ${running}: ${waiting}`)
})

t.test('after a long trial, what it holds up gets four times as long before the next one', async (t) => {
  for (const [lanes, other] of [
    [3, 'firstTrial'],
    [1, 'newRows'],
    [1, 'lookUp']
  ] as const) {
    const policy = setUp([], lanes)
    const run = (kind: Kind, ms: number) => {
      policy.begin(kind)
      policy.end(kind, 1, true, ms)
    }
    run('longTrial', 10)
    // After these it would be the turn of a long trial.
    for (const kind of ['lookUp', 'newRows', 'firstTrial'] as const) run(kind, 13)
    t.equal(choose(policy, 'longTrial', other), other, `${lanes} lanes: after 39 ms`)
    t.equal(choose(policy, 'longTrial'), 'longTrial', 'nothing is held up')
    run('firstTrial', 1)
    t.equal(choose(policy, 'longTrial', other), 'longTrial', `${lanes} lanes, ${other}: after 40 ms`)
  }
})

t.test('how many rows go together', async (t) => {
  const policy = setUp()
  const end = (kind: Kind, isSuccess: boolean, rows = 1) => {
    policy.begin(kind)
    policy.end(kind, rows, isSuccess, 0)
    return policy.mostRows(kind, 16)
  }
  t.equal(policy.mostRows('newRows', 0), 256)
  t.equal(policy.mostRows('lookUp', 0), 256)
  const quarters = [100, 25].map((rows) => end('lookUp', false, rows))
  t.same(quarters, [25, 7], 'a quarter of those that failed')
  const afterEach = [1, 2, 3].map(() => end('lookUp', true))
  t.same(afterEach, [28, 112, 256], 'four times as many, up to a batch')
  t.equal(policy.mostRows('firstTrial', 16), 16)
  const grown = Array.from({ length: 9 }, () => end('firstTrial', true))
  t.same(grown, [16, 16, 16, 16, 32, 32, 32, 32, 48], 'a part more for four successes')
  t.equal(policy.mostRows('longTrial', 16), 16, 'of its own kind')
  t.equal(end('newRows', false), 256)
  t.equal(policy.mostRows('firstTrial', 16), 16, 'until any insert fails')
})

t.test('an attempt ends once', async (t) => {
  const policy = setUp(['newRows'])
  policy.end('newRows', 1, true, 0)
  t.throws(() => policy.end('newRows', 1, true, 0), { code: 'ERR_ASSERTION' })
})
