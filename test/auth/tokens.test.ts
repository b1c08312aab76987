/** The access tokens: how a list of them is read, and how one is made. */
import { hash } from 'node:crypto'
import t from 'tap'
import { createToken, isTokenShaped, parseTokens } from '../../src/auth/tokens.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'

const secret = 'abcdefghijklmnop'
const other = 'ponmlkjihgfedcba'

/** Returns how many tokens a list has, and the callers of these two, each of which is asked for twice. */
function callers(text: string, one = secret, two = other) {
  const tokens = parseTokens(text)
  const [first, second, ...again] = [one, two, one, two].map(tokens.findCaller)
  t.strictSame(again, [first, second])
  t.equal(tokens.findCaller(hash('sha256', one)), undefined, 'a digest is no secret')
  return [tokens.size, first, second]
}

t.test('each form of an entry names its caller', async (t) => {
  t.strictSame(callers(secret), [1, 'default', undefined])
  t.strictSame(callers(`shop:${secret}`), [1, 'shop', undefined])
  t.strictSame(callers(`shop:sha256:${hash('sha256', secret)}`), [1, 'shop', undefined])
  t.strictSame(callers(`shop:sha256:${hash('sha256', secret).toUpperCase()}`), [1, 'shop', undefined])
})

t.test('commas and new lines separate entries; white space and empty entries do not count', async (t) => {
  const expected = [2, 'default', 'shop']
  t.strictSame(callers(`${secret},shop:${other}`), expected)
  t.strictSame(callers(`${secret}\nshop:${other}\n`), expected)
  t.strictSame(callers(`\r\n ${secret} \r\n,,\n\t shop:${other},`), expected)
})

t.test('several secrets for one name, as while a secret is replaced, are all of that caller', async (t) => {
  t.strictSame(callers(`shop:${secret},shop:${other}`), [2, 'shop', 'shop'])
})

t.test('a secret and its own digest under one name are one token', async (t) => {
  t.strictSame(callers(`shop:${secret},shop:sha256:${hash('sha256', secret)}`), [1, 'shop', undefined])
})

t.test('names and secrets at their bounds are accepted', async (t) => {
  const longest = `${'a'.repeat(59)}._-9Z`
  t.strictSame(callers(`${longest}:${secret}`), [1, longest, undefined])
  const everyCharacter = 'AZaz09-._~+/===='
  t.strictSame(callers(`a:${everyCharacter}`, everyCharacter), [1, 'a', undefined])
})

const badName = 'has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
const badDigest = 'must have 64 hex digits after "sha256:"'
const badSecret = 'must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'

const bad: [what: string, entry: string, fault: string][] = [
  ['a name that is empty', `:${secret}`, badName],
  ['a name of 65 characters', `${'a'.repeat(65)}:${secret}`, badName],
  ['a name with a space', `my shop:${secret}`, badName],
  ['a name beyond ASCII', `blümchen:${secret}`, badName],
  ['a digest without a name, so that "sha256" stands as the name', `sha256:${'0'.repeat(64)}`, badName],
  ['a digest of 63 digits', `a:sha256:${'0'.repeat(63)}`, badDigest],
  ['a digest of 65 digits', `a:sha256:${'0'.repeat(65)}`, badDigest],
  ['a digest with a letter beyond f', `a:sha256:${'0'.repeat(63)}g`, badDigest],
  ['the digest of an empty secret', `a:sha256:${hash('sha256', '')}`, 'has the digest of an empty secret'],
  ['a secret of 15 characters', 'abcdefghijklmno', badSecret],
  ['a named secret of 15 characters', 'a:abcdefghijklmno', badSecret],
  ['an empty secret', 'a:', badSecret],
  ['a secret with a space', 'abcdefgh ijklmnop', badSecret],
  ['a secret with a colon', `a:abcdefgh:ijklmnop`, badSecret],
  ['a secret beyond ASCII', 'äbcdefghijklmnop', badSecret],
  ['a secret with "=" inside', 'abcdefgh=ijklmnop', badSecret],
  ['a secret of "=" alone', '='.repeat(16), badSecret]
]

for (const [what, entry, fault] of bad) {
  t.test(`${what} is a fault`, async (t) => {
    t.throws(() => parseTokens(entry), new StartupFault([`entry 1 ${fault}`]))
  })
}

t.test('the same secret under two names is a fault, however it is written', async (t) => {
  const fault = new StartupFault(['entry 2 repeats the secret of another name'])
  for (const again of [`b:${secret}`, secret, `b:sha256:${hash('sha256', secret)}`])
    t.throws(() => parseTokens(`a:${secret},${again}`), fault, again)
})

t.test('each bad entry has a line with its place', async (t) => {
  t.throws(
    () => parseTokens(`short,shop:${secret},:${other},b:sha256:00`),
    new StartupFault([`entry 1 ${badSecret}`, `entry 3 ${badName}`, `entry 4 ${badDigest}`])
  )
})

t.test('a list without entries is a fault', async (t) => {
  for (const text of ['', '\n', ' , ,\n']) {
    t.throws(() => parseTokens(text), new StartupFault(['must hold at least one token']))
  }
})

t.test('a token that is made is recognised by its entry, which does not hold it', async (t) => {
  const { secret, entry } = createToken('shop')
  t.match(secret, /^[A-Za-z0-9_-]{43}$/)
  t.equal(entry, `shop:sha256:${hash('sha256', secret)}`)
  t.strictSame(callers(entry, secret), [1, 'shop', undefined])
  t.not(createToken('shop').secret, secret)
  t.throws(() => createToken('sha256'), new StartupFault([`the token ${badName}`]))
})

t.test('a token has the shape of RFC 6750, whatever its length', async (t) => {
  for (const text of ['a', 'AZaz09-._~+/', 'a==']) t.equal(isTokenShaped(text), true, text)
  for (const text of ['', '=', 'a=b', 'a b', 'a,b', 'ä', 'a\n']) {
    t.equal(isTokenShaped(text), false, JSON.stringify(text))
  }
})
