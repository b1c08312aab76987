/** The counts of what PostgreSQL reports. */
import t from 'tap'
import { createReportCounts, findSqlState, knownCodes } from '../../src/metrics/reports.ts'

const report = (code: string, cause?: unknown) =>
  Object.assign(new Error('m', { cause }), { code, severity: 'ERROR' })

t.test('the SQLSTATE is that of the error or of its cause, if PostgreSQL has reported it', async (t) => {
  t.equal(findSqlState(report('23514')), '23514')
  t.equal(findSqlState(new Error('m', { cause: new Error('m', { cause: report('28P01') }) })), '28P01')
  for (const error of [undefined, 'text', new Error('m'), Object.assign(new Error('m'), { code: 'EPIPE' })])
    t.equal(findSqlState(error), undefined)
  for (const code of ['2351', '235144', '2351é', '23-14']) t.equal(findSqlState(report(code)), undefined)
  const loop = new Error('m')
  loop.cause = loop
  t.equal(findSqlState(loop), undefined)
})

t.test('64 codes have a count of their own, all others share one', async (t) => {
  const { add, counts } = createReportCounts()
  const codes = Array.from({ length: 70 }, (_, index) => `X${String(index).padStart(4, '0')}`)
  for (const code of [...codes, ...codes]) add(report(code))
  add(new Error('m'))
  t.equal(Object.keys(counts).length, 65)
  t.equal(counts.X0000, 2)
  t.equal(counts.other, 2 * (70 - (64 - knownCodes.length)))
  for (const code of knownCodes) t.equal(counts[code], 0)
})

t.test('resources count as too few for 15 s after the last report of class 53 or 58', async (t) => {
  let now = 1_000_000
  t.intercept(performance, 'now', { value: () => now })
  const reports = createReportCounts()
  t.equal(reports.isExhausted, false)
  reports.add(report('23514'))
  t.equal(reports.isExhausted, false)
  for (const code of ['53100', '58030']) {
    reports.add(report(code))
    now += 14_999
    t.equal(reports.isExhausted, true)
    now += 1
    t.equal(reports.isExhausted, false)
  }
})
