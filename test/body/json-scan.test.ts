/** One pass over a JSON text: where the id is, and whether the text has too many values. */
import t from 'tap'
import { createJsonReader, findMembers, maximumValues } from '../../src/body/json.ts'
import { Failure } from '../../src/failures/failure.ts'

const scan = (text: string) => findMembers(Buffer.from(text, 'latin1'), [Buffer.from('id')])[0]

t.test('the offset is after the colon of the last id of the outermost object', async (t) => {
  t.equal(scan('{"id":7}'), 6)
  t.equal(scan('{ "id" : 7 }'), 8)
  t.equal(scan('{"id":1,"id":2}'), 13)
  t.equal(scan('{"x":{"id":1},"id":2}'), 19)
  for (const key of ['\\u0069d', 'i\\u0064', '\\u0069\\u0064'])
    t.equal(scan(`{"${key}":7}`), key.length + 4, key)
})

t.test('other keys, other depths and texts without an object have none', async (t) => {
  const keys = [
    '',
    'i',
    'd',
    'ix',
    'xd',
    'idx',
    'di',
    'abcdefg',
    'abcdefghijkl',
    '\\u0069x',
    'x\\u0064',
    ' id'
  ]
  for (const key of keys) t.equal(scan(`{"${key}":7}`), -1, key)
  for (const text of ['', '7', '"id"', '[{"id":1}]', '{"x":{"id":1}}', '{"x":[{"id":1}]}', '{"x":"id"}'])
    t.equal(scan(text), -1, text)
})

t.test('every quote, colon, bracket and brace counts between strings, and none in them', async (t) => {
  for (const gap of ['', ' ', '\n\t', ' \r ']) {
    const arrays = `"a":[${gap}[${gap}1${gap}]${gap}]${gap}`
    const objects = `"b":{${gap}"id"${gap}:8${gap}}${gap}`
    const text = `${gap}{${gap}"id"${gap}:1,${arrays},${objects},"id"${gap}:7}${gap}`
    t.equal(scan(text), text.indexOf('7'), text)
  }
  for (const gap of ['', 'x', 'xx', '\xa2\xdc\xff']) {
    for (const string of [`"${gap}\\"${gap}\\\\${gap}"`, `"${gap}\\"id\\":[${gap}{:${gap}\\\\"`]) {
      const text = `{"s":${string},"id":7,"s":${string}}`
      t.equal(scan(text), text.indexOf('7'), text)
    }
  }
  for (const end of ['', '\\', '\xff']) t.equal(scan(`{"id":"${'x'.repeat(300)}${end}`), 6, 'it breaks off')
})

const list =
  (open: string, item: string, close: string, each = 1) =>
  (values: number) => {
    const count = Math.floor((values - 1) / each)
    const rest = (values - 1) % each
    return (
      open + [...Array(count).fill(item), ...Array(rest).fill(open === '{' ? '"r":1' : '1')].join() + close
    )
  }
const nested = (open: string, close: string) => (values: number) =>
  `${open.repeat(values - 1)}1${close.repeat(values - 1)}`

/** JSON texts with any number of values. */
const texts: [what: string, write: (values: number) => string][] = [
  ['numbers', list('[', '1', ']')],
  ['strings that hold every token', list('[', String.raw`",[]{}:\",\\"`, ']')],
  ['literals with spaces', list('[ ', ' null ', ' ]')],
  ['empty objects', list('[', '{}', ']')],
  ['empty arrays with spaces', list('[', '[ \t\r\n]', ']')],
  ['arrays of one', list('[', '[ 1 ]', ']', 2)],
  ['objects of two', list('[', '{"a":1,"b":[]}', ']', 3)],
  ['members with one name', list('{', '"a":1', '}')],
  ['members named __proto__', list('{', '"__proto__":{}', '}')],
  ['arrays in arrays', nested('[ ', ' ]')],
  ['objects in objects', nested('{"a":', '}')],
  ['ids in ids', nested('{"id": ', '}')]
]

/** Counts the values of a text by JSON.parse's own account: it calls the reviver for each that it keeps. */
function countValues(text: string): number {
  let count = 0
  JSON.parse(text, (_, value) => {
    count++
    return value
  })
  return count
}

for (const [what, write] of texts) {
  t.test(`as many values as the limit are read, one more is refused: ${what}`, async (t) => {
    // Of members with one name it keeps the last, and deeper than this it overflows the stack.
    if (!what.startsWith('members')) t.equal(countValues(write(1_000)), 1_000, 'the text has so many')
    const read = (values: number) => createJsonReader(['id'])(Buffer.from(write(values)))
    t.doesNotThrow(() => read(maximumValues))
    t.throws(() => read(maximumValues + 1), {
      constructor: Failure,
      name: 'MalformedBody',
      message: `the body has more than ${maximumValues} values`
    })
  })
}

t.test('too many values are refused before anything is parsed, also before what is not JSON', async (t) => {
  for (const open of ['[', '{"a":', '[{},', '1,'])
    t.throws(
      () => createJsonReader([])(Buffer.from(open.repeat(maximumValues + 1))),
      { name: 'MalformedBody' },
      open
    )
})
