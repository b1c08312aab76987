/** The judgement over a stack's faults finds what the judge does, errors, and pauses. */
import t from 'tap'
import type { Operation, StoredRow } from '../../harness/histories/history.ts'
import type { History } from '../../harness/histories/rivals.ts'
import { judge, type Line, type Outages, toRow, toTable } from '../stacks/report.ts'

const deadlineMs = 10_000
const graceMs = 30_000

/** A create with its second's number as id; a time is when its response came. */
const create = (id: number, ended = id * 1_000 + 250): Operation => ({
  ...{ id: String(id), name: 'n', began: id * 1_000, ended },
  response: { status: 200, body: { name: 'n' } }
})
const row = (id: number): StoredRow => ({ id: String(id), name: 'n' })

const operations = [create(1), create(2), create(3)]
const rows = [row(1), row(2), row(3)]

const find = (changed: { rows?: StoredRow[]; outages?: Outages } & Partial<History>) => {
  const { rows: changedRows = rows, outages, ...others } = changed
  const history = { operations, failed: [], repeats: 2, ...others }
  return judge({ fault: 'a fault', history, rows: changedRows, deadlineMs, graceMs, outages })
}

t.test('what was acknowledged is stored: nothing is found, and the line says it all', async (t) => {
  const { line, violations } = find({})
  t.strictSame(violations, [])
  t.strictSame(line, {
    fault: 'a fault',
    requests: 3,
    acknowledged: 3,
    stored: 3,
    errors: 0,
    'sent again': 2,
    'longest pause': '1.00 s',
    'slowest response': '0.25 s'
  })
  t.equal(
    toTable([line]),
    [
      '| fault   | requests | acknowledged | stored | errors | sent again | longest pause | slowest response |',
      '|---------|---------:|-------------:|-------:|-------:|-----------:|--------------:|-----------------:|',
      '| a fault |        3 |            3 |      3 |      0 |          2 |        1.00 s |           0.25 s |'
    ].join('\n')
  )
})

const lost: Operation = { id: '3', name: 'n', began: 3_000 }
const refused = (ended: number): Operation => ({
  ...{ ...lost, ended },
  response: { status: 400, body: { error: 503, message: 'the plant may be stored' } }
})
const pausing = (ms: number) => [create(1), create(2), create(3, 2_250 + ms)]

for (const [title, changed, violation] of [
  ['an acknowledged plant that is not stored', { rows: rows.slice(1) }, 'told "stored", but nothing'],
  ['an error', { failed: [lost] }, 'a client saw an error: {"id":"3"'],
  ['a pause as long as the deadline', { operations: pausing(deadlineMs) }, 'for 10.00 s'],
  [
    'such a pause before the first success',
    { operations: [create(1, 11_000)], rows: [row(1)] },
    'for 10.00 s'
  ],
  [
    'such a pause after the last one',
    { operations: [create(1), refused(11_250)], rows: [row(1)] },
    'for 10.00 s'
  ],
  ['no success at all', { operations: [lost], rows: [] }, 'no create succeeded']
] as [string, Parameters<typeof find>[0], string][]) {
  t.test(`${title} is found`, async (t) => {
    const { violations } = find(changed)
    t.equal(violations.length, 1)
    t.ok(violations[0]?.startsWith('a fault: ') && violations[0].includes(violation), violations.join())
  })
}

t.test('a pause shorter than the deadline is what clients were promised', async (t) => {
  t.strictSame(find({ operations: pausing(deadlineMs - 1) }).violations, [])
})

t.test('an outage that is foreseen excuses errors, and pauses while it lasts', async (t) => {
  const operations = pausing(40_000)
  const until = (to: number, healed = 12_250) =>
    find({
      operations,
      failed: [lost],
      outages: {
        outages: [
          { from: 5_000, to: 6_000 },
          { from: 12_000, to }
        ],
        healed
      }
    })
  t.strictSame(until(42_250).violations, [])
  t.strictSame(until(32_251).violations, [])
  t.strictSame(until(32_250).violations, ['a fault: nothing was acknowledged for 10.00 s'])
  const late = { outages: [{ from: 12_250, to: 42_250 }], healed: 42_250 }
  t.match(find({ operations, outages: late }).violations, ['a fault: nothing was acknowledged for 10.00 s'])
  t.strictSame(until(42_250, 12_249).violations, [
    'a fault: nothing was acknowledged until 30.00 s after the end'
  ])
  t.strictSame(until(42_250, 50_000).violations, [
    'a fault: nothing was acknowledged until Infinity s after the end'
  ])
})

t.test('an error that meets no outage is not excused by one', async (t) => {
  const outages = (from: number, to: number) => ({ outages: [{ from, to }], healed: 0 })
  const errors = (failed: Operation, from: number, to: number) =>
    find({ failed: [failed], outages: outages(from, to) }).violations
  t.strictSame(errors(refused(3_500), 3_500, 4_000), [])
  t.strictSame(errors(refused(3_500), 2_500, 3_000), [])
  t.match(errors(refused(3_500), 3_501, 4_000), [/^a fault: a client saw an error: \{"id":"3"/])
  t.match(errors(refused(3_500), 2_500, 2_999), [/^a fault: a client saw an error: \{"id":"3"/])
  // A client without a response waited for the deadline at most.
  t.strictSame(errors(lost, 13_000, 14_000), [])
  t.match(errors(lost, 13_001, 14_000), [/^a fault: a client saw an error: \{"id":"3"/])
})

t.test('in a standstill each create gets a 503', async (t) => {
  const moves = (operations: Operation[], from: number, to: number) => {
    const outages = { outages: [{ from: 0, to: 60_000 }], healed: 0, standstill: { from, to } }
    return find({ operations, outages }).violations.filter((line) => line.includes('its 503'))
  }
  t.match(moves(operations, 2_000, 2_250), ['a fault: a create did not get its 503: {"id":"2"'])
  t.strictSame(moves(operations, 2_001, 2_999), [])
  t.strictSame(moves(operations, 2_000, 2_249), [])
  t.strictSame(moves([create(1), refused(3_250), lost], 2_000, 4_000), [])
})

t.test('the rounds of a seed become one row', async (t) => {
  const line = (fault: string, pause: string): Line => ({ ...find({}).line, fault, 'longest pause': pause })
  const round = (number: number, pause: string, isGentle = false) =>
    line(`seed 7, round ${number}${isGentle ? ', a majority is left' : ''}`, pause)
  const others = [line('SIGKILL of the primary', '25.00 s')]
  t.equal(toRow('HA', others, 0), undefined)
  t.equal(
    toRow('HA', [...others, round(1, '3.14 s', true), round(2, '41.00 s'), round(3, '9.99 s', true)], 2),
    '| HA | 7 | 3 | 9 | 9 | 6 | 10.0 s | 41.0 s | 2 |'
  )
  t.equal(toRow('HA', [round(1, '3.14 s')], 0), '| HA | 7 | 1 | 3 | 3 | 2 |  | 3.1 s | 0 |')
})

t.test('of many violations the first are shown', async (t) => {
  const many = Array.from({ length: 20 }, (_, id) => row(id + 10))
  const { violations } = find({ rows: [...rows, ...many] })
  t.equal(violations.length, 6)
  t.equal(violations.at(-1), 'a fault: and 15 more')
})
