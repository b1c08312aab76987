/** The Idempotency-Key: which key the value of the header field means. */
import t from 'tap'
import { parseIdempotencyKey } from '../src/http/head.ts'

const good: [value: string | undefined, key: string | undefined][] = [
  [undefined, undefined],
  ['a', 'a'],
  ["it's!~", "it's!~"],
  ['a\\b', 'a\\b'],
  ['x'.repeat(255), 'x'.repeat(255)],
  ['"a"', 'a'],
  ['"a \\"b\\" \\\\ c, d"', 'a "b" \\ c, d'],
  [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
  [`"${'\\"'.repeat(255)}"`, '"'.repeat(255)]
]
const bad = [
  '',
  ' ',
  '""',
  '"',
  '"a',
  'a"',
  '"a"b',
  '"a\\b"',
  '"a\\"',
  'a b',
  'a,b',
  'a, a',
  '"a", "a"',
  'é',
  '"é"',
  'a\t'
]

t.test('a key in quotes is read without quotes and escapes, any other as it stands', async (t) => {
  for (const [value, key] of good) t.equal(parseIdempotencyKey(value), key, `${value}`)
})

t.test('an empty, malformed or too long key is refused', async (t) => {
  for (const value of [...bad, 'x'.repeat(256), `"${'x'.repeat(256)}"`])
    t.throws(() => parseIdempotencyKey(value), { name: 'MalformedKey' }, `${value}`)
})
