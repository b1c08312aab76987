/** The machine's clock. */
import t from 'tap'
import { systemClock } from '../../src/shared/clock.ts'

t.test('the real clock runs, and a cancelled timer of it does not ring', async (t) => {
  const began = systemClock.now()
  let rung = false
  systemClock.after(1, () => {
    rung = true
  })()
  await new Promise<void>((resolve) => systemClock.after(2, resolve))
  t.notOk(rung)
  t.ok(systemClock.now() > began)
  t.ok(systemClock.now() <= performance.now(), 'not the wall clock, which can jump')
})
