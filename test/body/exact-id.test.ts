/** Exact integers, such as ids, out of JSON texts. */
import t from 'tap'
import { createJsonReader } from '../../src/body/json.ts'

const parseWithExactId = createJsonReader(['id'])
const read = (text: string) => parseWithExactId(Buffer.from(text))
const id = (text: string) => (read(text) as { id: unknown }).id

t.test('an integer of up to 19 digits becomes a bigint, however it is spelled', async (t) => {
  const spellings: Record<string, bigint> = {
    '0': 0n,
    '-0': 0n,
    '-0.0e5': 0n,
    '0e99999999999999999999': 0n,
    '7': 7n,
    '-7': -7n,
    '123456789012345': 123456789012345n,
    '1234567890123456': 1234567890123456n,
    '9007199254740993': 9007199254740993n,
    '9223372036854775807': 2n ** 63n - 1n,
    '9223372036854775808': 2n ** 63n,
    '-9223372036854775808': -(2n ** 63n),
    '1.0': 1n,
    '1.000': 1n,
    '1200.00': 1200n,
    '100e-2': 1n,
    '1e3': 1000n,
    '1E+2': 100n,
    '10e-1': 1n,
    '120.50e2': 12050n,
    '0.001e3': 1n,
    '9.223372036854775807e18': 2n ** 63n - 1n
  }
  for (const [spelling, value] of Object.entries(spellings)) {
    t.equal(id(`{"id":${spelling}}`), value, spelling)
    t.equal(id(`{ "name" : "x" , "id" : ${spelling} }`), value, `${spelling} after a name`)
  }
})

t.test('any other number stays a number', async (t) => {
  for (const spelling of [
    '1.5',
    '1e-1',
    '1.00000000000000000001',
    '9007199254740992.5',
    '1e400',
    '1e1000000000',
    '12345678901234567890',
    '1e19'
  ]) {
    t.type(id(`{"id":${spelling}}`), 'number', spelling)
  }
})

t.test('only the member of the outermost object counts, and the last one of it', async (t) => {
  const wide = '9007199254740993'
  const texts = [
    `{"id":1,"id":${wide}}`,
    `{"\\u0069d":${wide}}`,
    `{"id":1,"i\\u0064":${wide}}`,
    `{"id":${wide},"x":{"id":1}}`,
    `{"x":{"id":1},"id":${wide}}`,
    `{"x":[{"id":1}],"id":${wide},"y":"\\"id\\":1"}`,
    `{"x":"id","id":${wide},"y":"{\\"id\\":1}"}`,
    `{"id":{"id":1},"id":${wide}}`,
    `{"x":"∢∢","id":${wide},"y":5}`
  ]
  for (const text of texts) t.equal(id(text), 9007199254740993n, text)
  t.equal(id('{"id":1.00000000000000000001,"id":1}'), 1n)
  t.type(id('{"id":1,"id":1.00000000000000000001}'), 'number')
  t.equal(id('{"x":{"id":1},"\\u0069d":2}'), 2n)
  // Escapes of one letter, before what would be the digits of the other kind.
  for (const letter of ['b', 'f', 'n', 'r', 't', '"', '/', '\\'])
    t.equal(id(`{"id":${wide},"\\${letter}0069d":5}`), BigInt(wide), letter)
})

t.test('what is not a number, or not an object, stays what JSON.parse returns', async (t) => {
  for (const text of [
    '{"id":"5"}',
    '{"id":null}',
    '{"name":"id"}',
    '[{"id":1}]',
    'null',
    '5',
    '"id"',
    '{"x":{"id":1}}'
  ]) {
    t.strictSame(read(text), JSON.parse(text), text)
  }
})

t.test('what is not JSON throws a SyntaxError', async (t) => {
  for (const text of ['', '{', '{"id":01}', '{"id":1}}', '{"id":+1}', '{"id":.5}']) {
    t.throws(() => read(text), SyntaxError, text)
  }
})

t.test('of several names each has its own integer, by any spelling of its key', async (t) => {
  const read = createJsonReader(['mass', 'id'])
  const wide = 9007199254740993n
  for (const key of ['mass', '\\u006dass', '\\u006Dass', '\\u006d\\u0061\\u0073\\u0073', 'm\\u0061ss']) {
    const text = `{"id":${wide},"mas":1,"masss":2,"${key}":${wide + 2n},"other":5}`
    t.strictSame(read(Buffer.from(text)), { id: wide, mas: 1, masss: 2, mass: wide + 2n, other: 5 }, key)
  }
  t.strictSame(read(Buffer.from(`{"mass":"x","x":{"id":1}}`)), { mass: 'x', x: { id: 1 } })
  t.strictSame(read(Buffer.from('{"id":3}')), { id: 3n }, 'nothing is left of the text before')
})

t.test('without a name every number stays what JSON.parse returns', async (t) => {
  t.strictSame(createJsonReader([])(Buffer.from('{"id":1}')), { id: 1 })
})
