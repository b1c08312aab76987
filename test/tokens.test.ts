/** The bearer tokens: how a list of them is read. */
import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { StartupFault } from '../src/startup-fault.ts'
import { isTokenShaped, parseTokens } from '../src/tokens.ts'

const one = 'abcdefghijklmnop'
const two = 'ponmlkjihgfedcba'
const digest = hash('sha256', one)
const longest = `${'a'.repeat(59)}._-9Z`
const everyCharacter = 'AZaz09-._~+/===='

/** A list of tokens, and the callers of two secrets. */
const good: [list: string, first: string, second?: string][] = [
  [one, 'default'],
  [`shop:${one}`, 'shop'],
  [`shop:sha256:${digest}`, 'shop'],
  [`shop:sha256:${digest.toUpperCase()}`, 'shop'],
  [`${one},shop:${two}`, 'default', 'shop'],
  [`${one}\nshop:${two}\n`, 'default', 'shop'],
  [`\r\n ${one} \r\n,,\n\t shop:${two},`, 'default', 'shop'],
  [`shop:${one},shop:${two}`, 'shop', 'shop'],
  [`shop:${one},shop:sha256:${digest}`, 'shop'],
  [`${longest}:${one}`, longest]
]

t.test('each entry names the caller of its secret', async (t) => {
  for (const [list, first, second] of good) {
    const findCaller = parseTokens(list)
    t.strictSame([await findCaller(one), await findCaller(two)], [first, second], list)
    t.equal(await findCaller(digest), undefined, 'a digest is no secret')
  }
  t.equal(await parseTokens(`a:${everyCharacter}`)(everyCharacter), 'a')
})

const badName = 'has a bad name: 1 to 64 letters, digits, ".", "_" or "-", and not "sha256"'
const badDigest = 'must have 64 hex digits after "sha256:"'
const badSecret =
  'must have a secret of 16 or more letters, digits or "-._~+/", "=" only at its end'
const repeated = 'repeats the secret of another name'

const bad: [list: string, ...faults: string[]][] = [
  [`:${one}`, `entry 1 ${badName}`],
  [`${'a'.repeat(65)}:${one}`, `entry 1 ${badName}`],
  [`my shop:${one}`, `entry 1 ${badName}`],
  [`blümchen:${one}`, `entry 1 ${badName}`],
  [`sha256:${digest}`, `entry 1 ${badName}`],
  [`a:sha256:${digest.slice(1)}`, `entry 1 ${badDigest}`],
  [`a:sha256:${digest}0`, `entry 1 ${badDigest}`],
  [`a:sha256:${digest.slice(1)}g`, `entry 1 ${badDigest}`],
  [`a:sha256:${hash('sha256', '')}`, 'entry 1 has the digest of an empty secret'],
  [one.slice(1), `entry 1 ${badSecret}`],
  ['a:', `entry 1 ${badSecret}`],
  ['abcdefgh ijklmnop', `entry 1 ${badSecret}`],
  ['a:abcdefgh:ijklmnop', `entry 1 ${badSecret}`],
  ['äbcdefghijklmnop', `entry 1 ${badSecret}`],
  ['abcdefgh=ijklmnop', `entry 1 ${badSecret}`],
  ['='.repeat(16), `entry 1 ${badSecret}`],
  [`a:${one},b:${one}`, `entry 2 ${repeated}`],
  [`a:${one},b:sha256:${digest}`, `entry 2 ${repeated}`],
  [
    `short,shop:${one},:${two},b:sha256:00`,
    `entry 1 ${badSecret}`,
    `entry 3 ${badName}`,
    `entry 4 ${badDigest}`
  ],
  [' , ,\n', 'must hold at least one token']
]

t.test('each entry that breaks a rule has a line, without its secret', async (t) => {
  for (const [list, ...faults] of bad)
    t.throws(() => parseTokens(list), new StartupFault(faults), list)
})

t.test('a token made as docs/systemd.md says is recognised by its entry', async (t) => {
  const page = readFileSync(new URL('../docs/systemd.md', import.meta.url), 'utf8')
  const [make = ''] = /^ {4}token=.*\n.*$/m.exec(page) ?? []
  const path = join(t.testdir({}), 'tokens')
  const secret = execFileSync('sh', ['-c', make.replace('/etc/plant-store/tokens', path)], {
    encoding: 'utf8'
  })
  t.equal(await parseTokens(readFileSync(path, 'utf8'))(secret.trim()), 'alice')
})

t.test('a token has the shape of RFC 6750', async (t) => {
  for (const text of ['a', everyCharacter]) t.ok(isTokenShaped(text), text)
  for (const text of ['', '=', 'a=b', 'a b', 'a,b', 'ä', 'a\n']) t.notOk(isTokenShaped(text), text)
})
