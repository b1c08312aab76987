/** One pass over a JSON text: where the id is, and how many values the text has. */
import t from 'tap'
import { Failure } from '../../src/failures/failure.ts'
import { findMembers, maximumValues } from '../../src/http/json.ts'

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
})

t.test('a text that breaks off in a string is read to its end', async (t) => {
  for (const end of ['', '\\', '\xff']) t.equal(scan(`{"id":"${'x'.repeat(300)}${end}`), 6)
})

const nested = (open: string, close: string) => (values: number) =>
  open.repeat(values - 1) + 1 + close.repeat(values - 1)
const list = (open: string, item: string, close: string) => (values: number) =>
  `${open}${`${item},`.repeat(values - 2)}${item}${close}`

/** Texts with a number of values, the outermost one among them. */
const texts: Record<string, (values: number) => string> = {
  elements: list('[', '1', ']'),
  members: list('{', '"a":1', '}'),
  'empty objects': list('[', '{}', ']'),
  'empty arrays with spaces': list('[', '[ \n\t\r]', ']'),
  'strings that hold every token': list('[', '",[]{}:\\""', ']'),
  'objects in objects': nested('{"a":', '}'),
  'arrays in arrays': nested('[ ', ' ]'),
  'ids in ids': nested('{"id": ', '}')
}

for (const [what, write] of Object.entries(texts)) {
  t.test(`${maximumValues} values pass, and one more is refused: ${what}`, async (t) => {
    t.doesNotThrow(() => scan(write(maximumValues)))
    t.throws(() => scan(write(maximumValues + 1)), {
      constructor: Failure,
      error: 400,
      message: `the body has more than ${maximumValues} values`
    })
  })
}
