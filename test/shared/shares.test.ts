/** Shares of a common budget: how much one caller may hold, and what others find free. */
import t from 'tap'
import { Shares } from '../../src/shared/shares.ts'

/** Takes one at a time for a caller, for as long as it may; returns how often. */
function exhaust(shares: Shares, caller: string): number {
  let taken = 0
  while (shares.take(caller, 1)) taken++
  return taken
}

t.test('a caller alone gets half, the next ones get what leaves as much free', async (t) => {
  const shares = new Shares(120)
  const taken = ['a', 'b', 'c'].map((caller) => exhaust(shares, caller))
  t.strictSame(taken, [60, 30, 15])
  t.equal(shares.held, 105)
})

t.test('callers that take by turns get the same: of two a third each, of three a quarter', async (t) => {
  for (const [count, each] of [
    [2, 40],
    [3, 30]
  ] as const) {
    const shares = new Shares(120)
    const callers = Array.from({ length: count }, (_, index) => `caller ${index}`)
    const taken = new Map(callers.map((caller) => [caller, 0]))
    for (let turn = 0; turn < 120; turn++)
      for (const caller of callers)
        if (shares.take(caller, 1)) taken.set(caller, (taken.get(caller) ?? 0) + 1)
    t.strictSame(
      [...taken.values()],
      callers.map(() => each)
    )
  }
})

t.test('the portion of a caller is what it has of what all hold', async (t) => {
  const shares = new Shares(100)
  t.equal(shares.portion('a'), 0)
  shares.take('a', 30)
  shares.take('b', 10)
  t.strictSame([shares.portion('a'), shares.portion('b'), shares.portion('c')], [0.75, 0.25, 0])
})

t.test('what is released is free for every caller', async (t) => {
  const shares = new Shares(10)
  t.equal(exhaust(shares, 'a'), 5)
  shares.release('a', 2)
  t.equal(shares.held, 3)
  t.equal(exhaust(shares, 'b'), 4)
  t.equal(shares.fits('a', 1), false)
  shares.release('a', 3)
  shares.release('b', 4)
  t.equal(shares.held, 0)
  t.equal(exhaust(shares, 'b'), 5)
})

t.test('more than what a caller holds cannot be released', async (t) => {
  const shares = new Shares(10)
  shares.take('a', 2)
  const error = { code: 'ERR_ASSERTION', message: 'only what was taken is released' }
  t.throws(() => shares.release('a', 3), error)
  t.throws(() => shares.release('b', 1), error)
  shares.release('b', 0)
  shares.release('a', 2)
  t.throws(() => shares.release('a', 1), error)
  t.equal(shares.held, 0)
})

t.test('an amount above half fits a caller that holds nothing, one above the rest never', async (t) => {
  const shares = new Shares(10)
  t.equal(shares.take('a', 11), false)
  t.ok(shares.take('a', 10))
  t.equal(shares.fits('b', 1), false)
  t.equal(shares.held, 10)
})
