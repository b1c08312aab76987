/** When the database counts as unavailable, and as down: promises 7 and 10. */
import t from 'tap'
import { Health } from '../../src/group-commit/health.ts'
import type { FailureKind } from '../../src/group-commit/types.ts'
import { installVirtualTime } from '../support/virtual-time.ts'

t.test('a pause lasts until a probe can write; a silent deadline in it is an outage', async (t) => {
  const { moveTo, restore } = installVirtualTime(() => 0)
  t.teardown(restore)
  const told: (boolean | string)[] = []
  let probed: FailureKind | undefined = 'unavailable'
  const health = new Health({
    deadlineMs: 1_000,
    probe: async () => probed && { kind: probed, error: new Error(probed) },
    onOutage: (isDown) => told.push(isDown),
    onResume: () => told.push('due')
  })
  health.noteFailure({ kind: 'unknown', error: new Error('unknown') })
  t.notOk(health.isPaused, 'one that is lost says little')
  health.noteFailure({ kind: 'unavailable', error: new Error('unavailable') })
  health.noteAnswer(false)
  await moveTo(900)
  t.strictSame([told, health.isPaused], [[], true], 'a late response ends no pause')
  await moveTo(3_000)
  t.strictSame([told, health.isDown], [[true], true])
  probed = 'retryable'
  await moveTo(10_000)
  t.strictSame(
    [told, health.isPaused],
    [[true, false], true],
    'a locked table is unavailable, and not down'
  )
  probed = undefined
  await moveTo(11_000)
  t.strictSame([told, health.isPaused], [[true, false, 'due'], false])
})

t.test(
  'one wait for a probe at a time, whatever ends while one runs; none after the stop',
  async (t) => {
    const { moveTo, restore } = installVirtualTime(() => 0)
    t.teardown(restore)
    let probes = 0
    const probe = async () => {
      probes++
      await new Promise((resolve) => setTimeout(resolve, 5))
      return { kind: 'unavailable', error: new Error('unavailable') } as const
    }
    const health = new Health({ deadlineMs: 1_000, probe, onOutage() {}, onResume() {} })
    health.noteFailure({ kind: 'unavailable', error: new Error('unavailable') })
    await moveTo(12)
    health.noteAnswer(true)
    health.noteFailure({ kind: 'unknown', error: new Error('unknown') })
    await moveTo(5_300)
    health.stop()
    const before = probes
    await moveTo(10_000)
    t.ok(before > 0)
    t.equal(probes, before)
  }
)
