/** Exact integers, such as ids, out of JSON texts, and the limit of how many values a text has. */
import t from 'tap'
import { createJsonReader, maximumValues } from '../src/http/json.ts'

const read = (text: string, names = ['id']) => createJsonReader(names)(Buffer.from(text))
const id = (text: string) => (read(text) as { id: unknown }).id
const wide = 9007199254740993n

const integers: [spelling: string, value: bigint][] = [
  ['0', 0n],
  ['-0', 0n],
  ['-0.0e5', 0n],
  ['0e99999999999999999999', 0n],
  ['7', 7n],
  ['-7', -7n],
  ['123456789012345', 123456789012345n],
  ['1234567890123456', 1234567890123456n],
  ['9007199254740993', wide],
  ['9223372036854775807', 2n ** 63n - 1n],
  ['9223372036854775808', 2n ** 63n],
  ['-9223372036854775808', -(2n ** 63n)],
  ['1.0', 1n],
  ['1200.00', 1200n],
  ['100e-2', 1n],
  ['1e3', 1000n],
  ['1E+2', 100n],
  ['120.50e2', 12050n],
  ['0.001e3', 1n],
  ['9.223372036854775807e18', 2n ** 63n - 1n]
]

t.test('an integer of up to 19 digits becomes a bigint, however it is spelled', async (t) => {
  for (const [spelling, value] of integers) {
    t.equal(id(`{"id":${spelling}}`), value, spelling)
    t.equal(id(`{ "name" : "x" , "id" : ${spelling} }`), value, `${spelling} after a name`)
  }
})

t.test('any other number stays a number', async (t) => {
  const numbers =
    '1.5 1e-1 1.00000000000000000001 9007199254740992.5 1e400 1e1000000000 12345678901234567890 1e19'
  for (const spelling of numbers.split(' ')) t.type(id(`{"id":${spelling}}`), 'number', spelling)
})

const members: [what: string, text: string][] = [
  ['the last of several', `{"id":1,"id":${wide}}`],
  ['an escaped key', `{"\\u0069d":${wide}}`],
  ['an escaped key after a plain one', `{"id":1,"i\\u0064":${wide}}`],
  ['before an id in an object', `{"id":${wide},"x":{"id":1}}`],
  ['after an id in an object', `{"x":{"id":1},"id":${wide}}`],
  ['beside ids in an array and in a string', `{"x":[{"id":1}],"id":${wide},"y":"\\"id\\":1"}`],
  ['beside strings that are the key', `{"x":"id","id":${wide},"y":"{\\"id\\":1}"}`],
  ['after an object of its own name', `{"id":{"id":1},"id":${wide}}`],
  ['beyond ASCII', `{"x":"∢∢","id":${wide},"y":5}`],
  ['beside a key with another escape', `{"id":${wide},"\\n0069d":5,"\\\\u0069d":6}`],
  ['between strings that end in a backslash', `{"s":"\\\\","id":${wide},"t":"\\"\\\\"}`],
  ['among arrays and white space', ` { "a" : [ [ 1 ] , { } ]\n,\t"id"\r: ${wide} , "b" : { "id" : 8 } } `]
]

t.test('only the last such member of the outermost object counts', async (t) => {
  for (const [what, text] of members) t.equal(id(text), wide, what)
  t.type(id('{"id":1,"id":1.00000000000000000001}'), 'number')
})

t.test('several names each have their own integer; without names there is none', async (t) => {
  for (const key of ['mass', '\\u006dass', '\\u006Dass', 'm\\u0061ss']) {
    const text = `{"id":${wide},"mas":1,"masss":2,"${key}":${wide + 2n},"other":5}`
    const expected = { id: wide, mas: 1, masss: 2, mass: wide + 2n, other: 5 }
    t.strictSame(read(text, ['mass', 'id']), expected, key)
  }
  t.strictSame(read('{"id":1}', []), { id: 1 })
})

t.test('anything else is what JSON.parse returns, or throws', async (t) => {
  const texts = [
    '{"id":"5"}',
    '{"id":null}',
    '{"name":"id"}',
    '[{"id":1}]',
    'null',
    '5',
    '"id"',
    '{"x":{"id":1}}'
  ]
  for (const text of texts) t.strictSame(read(text), JSON.parse(text), text)
  for (const text of ['', '{', '{"id":01}', '{"id":1}}', '{"id":+1}', '{"id":.5}', '{"id":"\\'])
    t.throws(() => read(text), SyntaxError, text)
})

const join = (item: string, values: number) => Array(values).fill(item).join()
/** Texts with this many values. */
const wholes: [what: string, write: (values: number) => string][] = [
  ['numbers', (values) => `[${join('1', values - 1)}]`],
  ['strings that hold every token', (values) => `[${join(String.raw`",[]{}:\",\\"`, values - 1)}]`],
  [
    'empty objects, which count as two',
    (values) => `[${join('{ }', (values - 1) >> 1)}${values % 2 ? '' : ',1'}]`
  ],
  ['members of one name', (values) => `{${join('"a":1', values - 1)}}`],
  ['arrays in arrays', (values) => `${'[ '.repeat(values - 1)}1${' ]'.repeat(values - 1)}`],
  ['ids in ids', (values) => `${'{"id": '.repeat(values - 1)}1${'}'.repeat(values - 1)}`]
]

t.test('as many values as the limit are read, one more is refused before anything is parsed', async (t) => {
  const refusal = { name: 'MalformedBody', message: `the body has more than ${maximumValues} values` }
  for (const [what, write] of wholes) {
    t.doesNotThrow(() => read(write(maximumValues)), what)
    t.throws(() => read(write(maximumValues + 1)), refusal, what)
    t.throws(() => read(`${write(maximumValues + 1)}?`), refusal, `${what}, and no JSON`)
  }
})
