/** Write ids: which requests share one, and what a row's id tells of it. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { deriveWriteId, keyPartOf, outcomeOf } from '../src/plants/write-id.ts'

const content = { id: 7n, name: 'é,😀' }
const other = { ...content, tag: '' }

t.test('a write id is the same in each release: rows have it for ever', async (t) => {
  t.equal(deriveWriteId('tester', 'a', content), '44250f53-7313-8406-a126-e0a56d9b7e04')
  const special = { id: -1n, name: 'a"\\b', tag: '' }
  t.equal(deriveWriteId('tester', 'a', special), '44250f53-7313-8c67-ab8b-92cad7e19723')
})

/** Pairs that would be the same text without their lengths. */
const pairs: [caller: string, key: string][] = [
  ['tester', 'key'],
  ['test', 'erkey'],
  ['tester1', 'key'],
  ['a', '1:b'],
  ['a1', ':b'],
  ['a', 'b:c'],
  ['a:b', 'c']
]

t.test('another caller, key or content has another id, which shows whose key it is', async (t) => {
  const ids = pairs.map(([caller, key]) => [
    deriveWriteId(caller, key, content),
    deriveWriteId(caller, key, other)
  ])
  const groups = [...ids, [randomUUID()], [randomUUID()]]
  const keyOf = (id: string) => keyPartOf(id) ?? id
  t.equal(new Set(groups.flat()).size, 2 * pairs.length + 2)
  for (const [index, group] of groups.entries())
    for (const one of group) {
      const same = groups.flat().filter((other) => keyOf(one) === keyOf(other))
      t.strictSame(same, groups[index], one)
    }
})

const own = deriveWriteId('tester', 'a', content)
const unkeyed = randomUUID()
const rowOf = (caller: string, key: string, of = content) => deriveWriteId(caller, key, of)

/** A create that has inserted no row; the id of the row that is there; its outcome, without and after an open attempt. */
const outcomes: [title: string, create: string, found: string | undefined, ...string[]][] = [
  ['no row', own, undefined, 'none', 'none'],
  ['its own row', own, own, 'replayed', 'created'],
  ['its own row, without a key', unkeyed, unkeyed, 'created', 'created'],
  ['its key with other content', own, rowOf('tester', 'a', other), 'ReusedKey', 'ReusedKey'],
  ['another key', own, rowOf('tester', 'b'), 'DuplicatePlant', 'DuplicatePlant'],
  ['the key of another caller', own, rowOf('other', 'a'), 'DuplicatePlant', 'DuplicatePlant'],
  ['a row without a key', own, randomUUID(), 'DuplicatePlant', 'DuplicatePlant'],
  ['a row with a key, without one', unkeyed, own, 'DuplicatePlant', 'DuplicatePlant']
]

t.test('what became of a create, by the row that has its id', async (t) => {
  const nameOf = (outcome: ReturnType<typeof outcomeOf>) =>
    typeof outcome === 'object' ? outcome.name : (outcome ?? 'none')
  for (const [title, create, found, usual, mayBeStored] of outcomes) {
    t.equal(nameOf(outcomeOf(create, found, false)), usual, title)
    t.equal(nameOf(outcomeOf(create, found, true)), mayBeStored, `${title}, after an open attempt`)
  }
})
