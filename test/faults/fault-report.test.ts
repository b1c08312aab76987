/** The judgement over a stack's faults finds everything that must not be. */
import t from 'tap'
import { judge, toTable } from '../../deploy/faults/report.ts'
import { type Create, keyOf, plantOf } from '../../dev/load.ts'
import type { StoredPlant } from '../../dev/stored.ts'
import { deriveWriteId } from '../../src/plants/write-id.ts'

const caller = 'somebody'
const deadlineMs = 10_000

const create = (id: number, change: Partial<Create> = {}): Create => {
  return { id, error: 0, response: '', repeats: 0, began: id * 1_000, ended: id * 1_000 + 250, ...change }
}

const row = (id: number, change: Partial<StoredPlant> = {}): StoredPlant => {
  const { name, tag = null } = plantOf(id)
  return { id, name, tag, write_id: deriveWriteId(caller, keyOf(id)), ...change }
}

const creates = [create(1), create(2, { repeats: 2 }), create(3)]
const rows = [row(1), row(2), row(3)]

const find = (changed: { creates?: Create[]; rows?: StoredPlant[] }) =>
  judge({ fault: 'a fault', caller, creates, rows, deadlineMs, ...changed })

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

const failed = create(3, { error: 503 })
/** The third create gets its response so many ms after the second. */
const pausing = (ms: number) => [create(1), create(2), create(3, { ended: create(2).ended + ms })]

for (const [title, changed, violation] of [
  ['an acknowledged plant that is not stored', { rows: rows.slice(1) }, 'acknowledged, but not stored (1)'],
  ['another name', { rows: [row(1, { name: 'x' }), row(2), row(3)] }, 'stored with other content'],
  ['another tag', { rows: [row(1, { tag: null }), row(2), row(3)] }, 'stored with other content'],
  ['another write id', { rows: [row(1, { write_id: 'x' }), row(2), row(3)] }, 'or by another write (1)'],
  ['a plant that nobody sent', { rows: [...rows, row(4)] }, 'stored, but never sent (1)'],
  ['a plant that is there twice', { rows: [...rows, row(3)] }, 'stored twice'],
  ['an error', { creates: [create(1), create(2), failed] }, 'a client saw an error (1)'],
  [
    'failure 503 in a pause as long as the deadline',
    { creates: [create(1), failed, create(12)], rows: [row(1), row(12)] },
    'a client saw an error (1)'
  ],
  [
    'a pause as long as the deadline',
    { creates: pausing(deadlineMs) },
    'nothing was acknowledged for 10.00 s'
  ],
  [
    'such a pause before the first success',
    { creates: [create(1, { ended: 1_000 + deadlineMs })], rows: [row(1)] },
    'nothing was acknowledged for 10.00 s'
  ],
  [
    'such a pause behind the last one',
    { creates: [create(1), create(3, { error: 503, ended: create(1).ended + deadlineMs })], rows: [row(1)] },
    'nothing was acknowledged for 10.00 s'
  ],
  ['no success at all', { creates: [failed], rows: [] }, 'no create succeeded']
] as const) {
  t.test(`${title} is found`, async (t) => {
    const { violations } = find({ ...changed } as Parameters<typeof find>[0])
    t.ok(
      violations.some((each) => each.startsWith('a fault: ') && each.includes(violation)),
      violations.join()
    )
  })
}

t.test('a pause shorter than the deadline is what clients were promised', async (t) => {
  t.strictSame(find({ creates: pausing(deadlineMs - 1) }).violations, [])
})
