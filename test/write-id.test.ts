/** Write ids: which requests share one, and what a row's id tells of it. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { createJsonReader, toCanonicalJson } from '../src/http/json.ts'
import { NewPlant } from '../src/plants/schema.ts'
import { contentOf, deriveWriteId, keyPartOf, outcomeOf } from '../src/plants/write-id.ts'

const read = createJsonReader(NewPlant)
const toContent = (text: string) => contentOf(read(text) as NewPlant, text)
const content = toContent('{"id":7,"name":"é,😀"}')
const other = toContent('{"id":7,"name":"é,😀","tag":""}')

t.test('a write id is the same in each release: rows have it for ever', async (t) => {
  t.equal(deriveWriteId('tester', 'a', content), '44250f53-7313-8406-a126-e0a56d9b7e04')
  const special = toContent('{"id":-1,"name":"a\\"\\\\b","tag":""}')
  t.equal(deriveWriteId('tester', 'a', special), '44250f53-7313-8c67-ab8b-92cad7e19723')
})

/** Members beside an id and a name: for each meaning, all its spellings. */
const meanings = [
  [''],
  ['"n":12', '"n":12.0', '"n":1.2e1', '"n":120E-1', '"\\u006e":0.12e+2', '"n":1,"n":12'],
  ['"n":-12'],
  ['"n":"12"'],
  ['"n":0', '"n":-0', '"n":0.00', '"n":0e99', '"n":-0.0e-99'],
  ['"n":9007199254740993', '"n":9007199254740993.000'],
  ['"n":9007199254740992'],
  ['"n":0.1', '"n":1e-1'],
  ['"n":0.1000000000000000055511151231257827'],
  ['"n":1e400', '"n":10e399'],
  ['"n":1e401'],
  ['"n":1e-400'],
  ['"n":1e9007199254740990', '"n":10e9007199254740989'],
  ['"n":1e99999999999999999998'],
  ['"n":1e99999999999999999999'],
  ['"n":1e-99999999999999999999'],
  ['"n":null'],
  ['"n":"null"'],
  ['"n":[]'],
  ['"n":{}'],
  ['"n":[1,2]', '"n":[1.0,2e0]'],
  ['"n":[2,1]'],
  ['"n":["1,2"]'],
  ['"n":{"a":1,"b":{"c":true,"d":[]}}', '"n":{"b":{"d":[],"c":true},"a":1}'],
  ['"n":{"id":1}', '"n":{"id":1.0}'],
  ['"n":1,"m":2', '"m":2,"n":1'],
  ['"__proto__":{"a":1}'],
  ['"":""'],
  ['"n":"\\ud800"', '"n":"\\uD800"']
]

t.test('other members count by what they mean, in any order and spelling', async (t) => {
  const contents = meanings.map((spellings) =>
    spellings.flatMap((members) => {
      const tail = members && `,${members}`
      return [`{"id":1,"name":"n"${tail}}`, `{${members && `${members},`}"name":"n","id":1.0}`].map(
        toContent
      )
    })
  )
  for (const [index, same] of contents.entries())
    t.equal(new Set(same).size, 1, `${meanings[index]}: ${same[0]}`)
  t.equal(new Set(contents.flat()).size, meanings.length)
})

t.test('a long run of zeros in a number takes no time', async (t) => {
  const number = `0.1${'0'.repeat(900_000)}1`
  t.not(
    toContent(`{"id":1,"name":"n","n":${number}}`),
    toContent(`{"id":1,"name":"n","n":${number}1}`)
  )
})

t.test('a number with a long exponent takes no time', async (t) => {
  for (const sign of ['', '-'])
    for (const run of [read, toCanonicalJson]) {
      const text = `{"id":1e${sign}${'9'.repeat(8_000_000)},"name":"n"}`
      const before = process.cpuUsage()
      run(text)
      // As a BigInt, it takes some seconds.
      t.ok(
        process.cpuUsage(before).user < 500_000,
        `${run === read ? 'read' : 'in canonical form'}, e${sign}`
      )
    }
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

/**
 * A create that has inserted no row; the id of the row that is there; its outcome, without and
 * after an open attempt.
 */
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
