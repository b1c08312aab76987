/** What group commit learns of the store's speed, and the limits that follow. */
import t from 'tap'
import { Estimate } from '../../src/group-commit/estimate.ts'

const limits = { lanes: 3, batchRows: 256, batchBytes: 2 ** 21, deadlineMs: 10_000 }
/** Rows of a batch, of this many bytes each. */
const rowsOf = (count: number, bytes = 1) =>
  Array.from({ length: count }, () => ({ item: { id: 1n, bytes } }))

t.test('before any batch nothing is expected to take long', async (t) => {
  const estimate = new Estimate(limits)
  t.strictSame([estimate.expectMs(1_000, 0), estimate.batchLimitMs, estimate.lockMs], [0, 100, 25])
})

t.test(
  'a cut-off in each lane doubles the time of a batch, up to an eighth of the deadline',
  async (t) => {
    const estimate = new Estimate(limits)
    const cutOffAll = () => {
      for (let lane = 0; lane < limits.lanes; lane++) estimate.noteCutOff()
      return Math.round(estimate.batchLimitMs)
    }
    t.strictSame(Array.from({ length: 5 }, cutOffAll), [200, 400, 800, 1_250, 1_250])
  }
)

t.test('one slow batch counts at once, and quicker ones lower its time slowly', async (t) => {
  const estimate = new Estimate(limits)
  const learn = (ms: number) => {
    estimate.learn(rowsOf(1), ms)
    return [estimate.batchLimitMs, estimate.lockMs]
  }
  t.strictSame(learn(64), [256, 128])
  t.strictSame(learn(0), [192, 96])
  t.strictSame(learn(1_000), [4_000, 250])
  estimate.noteCutOff()
  t.equal(estimate.batchLimitMs, 4_000, 'a cut-off lowers nothing')
})

t.test('a wait is expected by how full the batches were, in rows or in bytes', async (t) => {
  const inRows = new Estimate(limits)
  inRows.learn(rowsOf(256), 16)
  t.equal(inRows.expectMs(3 * 256, 0), 1, 'a slower batch counts by a sixteenth')
  inRows.learn(rowsOf(256), 0)
  t.equal(inRows.expectMs(3 * 256, 0), 0.75, 'a quicker one by a quarter')
  inRows.learn(rowsOf(64), 0)
  t.equal(
    inRows.expectMs(3 * 256, 0),
    0.75 * (15 / 16),
    'one that is not full, by its part of that'
  )
  const inBytes = new Estimate(limits)
  inBytes.learn(rowsOf(2, 2 ** 21), 32)
  t.equal(inBytes.expectMs(1, 3 * 2 ** 21), 1, 'a row that is as large as a batch counts as one')
})
