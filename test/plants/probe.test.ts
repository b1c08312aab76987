/** The probe of an idle replica: what it reports, and when it probes. */
import t from 'tap'
import { NoConnection } from '../../src/database/errors.ts'
import { probeWhileIdle } from '../../src/plants/probe.ts'

const lost = new NoConnection('connect ECONNREFUSED')
const silent = new Error('the server does not react to a cancel request')
const unmigrated = Object.assign(new Error(), { code: '42P01', severity: 'ERROR' })
const locked = Object.assign(new Error(), { code: '57014', severity: 'ERROR' })

t.test('it reports since when the database is lost, also while a create waits', async (t) => {
  // The probe alone keeps no process alive.
  const alive = setInterval(() => {}, 1_000)
  t.teardown(() => clearInterval(alive))
  const pauses: unknown[] = []
  const { setTimeout } = globalThis
  t.intercept(globalThis, 'setTimeout', {
    value: (callback: () => void, ms: number) => {
      pauses.push(ms)
      return setTimeout(callback, 1)
    }
  })
  const looks: ('busy' | 'served' | Error)[] = [
    ...[lost, silent, 'busy' as const, silent],
    ...[unmigrated, lost, locked, lost, 'served' as const, lost]
  ]
  const reported: [look: number, since: number][] = []
  let look = 0
  let close = () => {}
  const { promise: asked, resolve: onLast } = Promise.withResolvers<void>()
  async function probe() {
    const outcome = looks[look - 1]
    if (look === looks.length) {
      close()
      onLast()
    }
    if (outcome instanceof Error) throw outcome
  }
  close = probeWhileIdle(
    probe,
    () => looks[look++] !== 'busy',
    (since) => void reported.push([look, since])
  )
  await asked
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(
    reported.map(([look]) => look),
    [1, 2, 3, 4, 6, 8],
    'closed, it reports nothing'
  )
  const [first = 0, second, third, fourth, fifth = 0] = reported.map(([, since]) => since)
  t.strictSame([second, third, fourth], [first, first, first])
  t.ok(fifth > first, 'it begins again')
  t.strictSame(pauses, Array(looks.length).fill(5_000), 'closed, it probes no more')
})
