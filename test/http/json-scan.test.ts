/** One pass over a JSON text: where the id is, and how deep the text nests. Between strings, long texts are read four bytes at a time. */
import t from 'tap'
import { Failure } from '../../src/failures/failure.ts'
import { findMembers } from '../../src/http/body.ts'

const scan = (text: string) => {
  const offsets = [-1]
  findMembers(Buffer.from(text, 'latin1'), [Buffer.from('id')], offsets)
  return offsets[0]
}

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

t.test('1,000 levels pass, one more is too deep, and what closes counts no more', async (t) => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}']
  ] as const) {
    const nested = (depth: number) => open.repeat(depth) + close.repeat(depth)
    t.equal(scan(nested(1_000)), -1)
    t.throws(() => scan(nested(1_001)), {
      constructor: Failure,
      message: 'the body is nested too deeply'
    })
    t.equal(scan(`[${'[[]],{"a":{}},'.repeat(1_000)}1]`), -1)
  }
})

/** Gaps that let what stands between them begin at each offset from a word of four bytes. */
const gaps = ['', 'x', 'xx', 'xxx', 'xxxx', '\xa2\xdc\xff']
const spaces = ['', ' ', '\n\t', ' \r ', '    ']

t.test('a long text is read like a short one: every quote, colon, bracket and brace counts', async (t) => {
  for (const pad of ['', ' '.repeat(300)]) {
    for (const gap of spaces) {
      const arrays = `"a":[${gap}[${gap}1${gap}]${gap}]${gap}`
      const objects = `"b":{${gap}"id"${gap}:8${gap}}${gap}`
      const text = `${pad}{${gap}"id"${gap}:1,${arrays},${objects},"id"${gap}:7}${pad}`
      t.equal(scan(text), text.indexOf('7'), text)
    }
  }
})

t.test('a long string is read like a short one: every quote and backslash counts', async (t) => {
  for (const pad of ['', 'x'.repeat(300)]) {
    for (const gap of gaps) {
      const escapes = `"${pad}${gap}\\"${gap}\\\\${gap}"`
      const tokens = `"${pad}${gap}\\"id\\":[${gap}{:${gap}\\\\"`
      for (const string of [escapes, tokens]) {
        const text = `{"s":${string},"id":7,"s":${string}}`
        t.equal(scan(text), text.indexOf('7'), text)
      }
    }
  }
})

t.test('a text that breaks off in a string is read to its end', async (t) => {
  for (const gap of gaps) {
    for (const end of ['', '\\']) t.equal(scan(`{"id":"${'x'.repeat(300)}${gap}${end}`), 6)
  }
})
