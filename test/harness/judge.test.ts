/** The judge of histories accepts what one order explains, and finds each forgery. */
import t from 'tap'
import type { Operation, StoredRow } from '../../harness/histories/history.ts'
import { judgeHistory } from '../../harness/histories/judge.ts'
import { type Field, sampleOf } from '../../harness/plants.ts'
import type { FailureName } from '../../src/failures/catalogue.ts'
import { Failure, toResponse } from '../../src/failures/failure.ts'
import { Plant } from '../../src/plants/schema.ts'

const id = '9223372036854775807'
const row = (name: string, change: Partial<StoredRow> = {}): StoredRow => ({ id, name, ...change })

/** An operation from one time to another; without a response its connection was lost. */
const sent = (began: number, ended: number, name: string, change: Partial<Operation> = {}): Operation => ({
  ...{ id, name, began, ended },
  ...change
})
const told = (failure: FailureName) => ({
  response: { status: 400, body: JSON.parse(toResponse(new Failure(failure), true).body) }
})
const got = (name: string, status = 200) => ({ response: { status, body: { name } } })
const [k, l] = [{ key: 'k' }, { key: 'l' }]

const winner = sent(0, 10, 'a', got('a'))
const keyed = sent(0, 10, 'a', { ...k, ...got('a') })
const lost = sent(0, 10, 'a')
const taken = told('DuplicatePlant')
const reused = { ...k, ...told('ReusedKey') }
const stored = [row('a')]

const right: [title: string, operations: Operation[], rows: StoredRow[]][] = [
  ['a plant that is stored', [winner], stored],
  [
    'a tag',
    [sent(0, 1, 'a', { tag: 't', response: { status: 200, body: { name: 'a', tag: 't' } } })],
    [row('a', { tag: 't' })]
  ],
  ['a lost connection, stored', [lost], stored],
  ['a lost connection, not stored', [lost], []],
  ['a response that is still open, stored', [{ id, name: 'a', began: 0 }], stored],
  ['"may be stored", stored', [sent(0, 10, 'a', told('OutcomeUnknown'))], stored],
  ['"may be stored", not stored', [sent(0, 10, 'a', told('OutcomeUnknown'))], []],
  ['an internal error, stored', [sent(0, 10, 'a', told('Internal'))], stored],
  ['"stored nothing", not stored', [sent(0, 10, 'a', told('DeadlineExceeded'))], []],
  ['409 next to the winner', [winner, sent(0, 5, 'b', taken)], stored],
  ['409 by a lost rival', [lost, sent(5, 6, 'b', taken)], stored],
  ['409 by a rival that began when it ended', [sent(5, 10, 'a', got('a')), sent(0, 5, 'b', taken)], stored],
  [
    '409 by the first attempt with a key, and 200 for the second',
    [sent(0, 1, 'a', k), sent(5, 6, 'b', taken), sent(7, 8, 'a', { ...k, ...got('a') })],
    stored
  ],
  ['409 by the first of two attempts without a key', [lost, sent(11, 20, 'a', taken)], stored],
  ['200 by the second of two attempts without a key', [lost, sent(11, 20, 'a', got('a'))], stored],
  ['a late commit of the first of two rivals', [lost, sent(11, 20, 'b')], stored],
  ['200 for each attempt with a key', [keyed, sent(20, 30, 'a', { ...k, ...got('a') })], stored],
  [
    '"stored nothing" next to another attempt with its key',
    [keyed, sent(0, 10, 'a', { ...k, ...told('DeadlineExceeded') })],
    stored
  ],
  ['422 for other content', [keyed, sent(5, 6, 'b', reused)], stored],
  ['422 by a lost rival', [sent(0, 1, 'a', k), sent(5, 6, 'b', reused)], stored],
  ['409 for another key with the same content', [keyed, sent(5, 6, 'a', { ...l, ...taken })], stored],
  ['a plant that breaks a rule', [sent(0, 1, 'b', { ...k, ...told('InvalidPlant') })], []],
  ['a malformed key', [sent(0, 1, 'b', { ...k, ...told('MalformedKey') })], []],
  ['other ids', [winner, { ...winner, id: '-1' }], [row('a'), row('a', { id: '-1' })]]
]

for (const [title, operations, rows] of right)
  t.test(`${title} is right`, async (t) => {
    t.strictSame(judgeHistory(operations, rows), [])
    t.strictSame(judgeHistory(operations.toReversed(), rows), [], 'in any order')
  })

const otherWins = 'acknowledged, but another plant has its id'
const noContract = 'not of the contract'
const unsent = 'stored with content that nobody sent'
const storedAll = 'told "nothing stored", but its plant is stored'
const forged: [title: string, violation: string, operations: Operation[], rows: StoredRow[]][] = [
  ['an acknowledged plant that is not stored', 'told "stored", but nothing is stored', [winner], []],
  ['another name', unsent, [winner], [row('b')]],
  ['another tag', unsent, [winner], [row('a', { tag: 't' })]],
  ['a plant that nobody sent', 'stored, but never sent', [winner], [row('a'), row('a', { id: '2' })]],
  ['a plant that is there twice', 'stored twice', [winner], [row('a'), row('a')]],
  ['another body', noContract, [sent(0, 1, 'a', got('b'))], stored],
  [
    'a body with an id',
    noContract,
    [sent(0, 1, 'a', { response: { status: 200, body: { name: 'a', id } as never } })],
    stored
  ],
  ['another status of a success', noContract, [sent(0, 1, 'a', got('a', 201))], stored],
  [
    'another status of a failure',
    noContract,
    [sent(0, 1, 'a', { response: { status: 503, body: { error: 503, message: '' } } })],
    []
  ],
  [
    'a message that is not a text',
    noContract,
    [sent(0, 1, 'a', { response: { status: 400, body: { error: 503, message: 0 as never } } })],
    []
  ],
  ['two winners', otherWins, [winner, sent(0, 10, 'b', got('b'))], stored],
  ['two winners of the same content', otherWins, [winner, sent(0, 10, 'a', got('a'))], stored],
  ['two keys that win', otherWins, [keyed, sent(0, 10, 'a', { ...l, ...got('a') })], stored],
  ['a reused key that wins', otherWins, [keyed, sent(0, 10, 'b', { ...k, ...got('b') })], stored],
  ['a later create that wins over an acknowledged one', otherWins, [winner, sent(11, 20, 'b')], [row('b')]],
  ['409 where nothing is stored', 'told "taken", but nothing is stored', [lost, sent(5, 6, 'b', taken)], []],
  [
    '409 before its rival was sent',
    'told "taken" before',
    [sent(7, 10, 'a', got('a')), sent(5, 6, 'b', taken)],
    stored
  ],
  [
    '409 by a rival that another one has replaced',
    'told "taken" before',
    [lost, sent(5, 6, 'b', taken), sent(7, 8, 'c')],
    [row('c')]
  ],
  [
    '409 for the plant that it has stored',
    'told "taken", but its plant is stored',
    [sent(5, 6, 'a', taken)],
    stored
  ],
  [
    '409 for a key that has won',
    'told "taken" by its own write',
    [keyed, sent(20, 30, 'a', { ...k, ...taken })],
    stored
  ],
  [
    '422 where nothing is stored',
    'told "reused", but nothing is stored',
    [sent(0, 1, 'a', k), sent(5, 6, 'b', reused)],
    []
  ],
  [
    '422 where another write is stored',
    'told "reused", but its key',
    [winner, sent(5, 6, 'b', reused)],
    stored
  ],
  [
    '422 before its rival was sent',
    'told "reused" before',
    [sent(7, 10, 'a', { ...k, ...got('a') }), sent(5, 6, 'b', reused)],
    stored
  ],
  [
    '422 for the same content',
    'told "reused" with the same content',
    [keyed, sent(5, 6, 'a', reused)],
    stored
  ],
  ['"stored nothing" of what is stored', storedAll, [sent(0, 10, 'a', told('DeadlineExceeded'))], stored],
  [
    '"stored nothing" of each attempt with a key',
    storedAll,
    [0, 20].map((began) => sent(began, began + 10, 'a', { ...k, ...told('Unavailable') })),
    stored
  ],
  ['an invalid plant that is stored', storedAll, [sent(0, 10, 'a', told('InvalidPlant'))], stored]
]

t.test('a row with another value of any field of the schema is found', async (t) => {
  for (const field of Object.keys(Plant.properties) as Field[]) {
    const operation = sent(0, 10, 'a', { [field]: sampleOf(field, 1) })
    const rows = [row('a', { [field]: sampleOf(field, 1) })]
    t.strictSame(judgeHistory([operation], rows), [], field)
    for (const value of [sampleOf(field, 2), undefined]) {
      const [violation] = judgeHistory([operation], [row('a', { [field]: value })])
      t.match(violation, 'content that nobody sent', `${field}: ${value}`)
    }
  }
})

for (const [title, violation, operations, rows] of forged)
  t.test(`${title} is found`, async (t) => {
    for (const each of [operations, operations.toReversed()]) {
      const violations = judgeHistory(each, rows)
      const isFound = violations.length > 0 && violations.every((line) => line.includes(violation))
      t.ok(isFound, violations.join('\n'))
      const isShown = violations.every((line) => line.includes(id) || line.includes('"2"'))
      t.ok(isShown, 'with its evidence')
    }
  })
