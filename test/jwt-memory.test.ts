/** Good tokens are remembered, so that they cost what listed ones do; but not more than a bound. */
import { Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { parseKeys } from '../src/jwt/keys.ts'
import { acceptJwt } from '../src/jwt/verify.ts'
import { audience, inSeconds, makeKey, toJwks } from './support/provider.ts'

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

t.test('beyond 20,000 good tokens, each new one takes the place of the oldest', async (t) => {
  const key = makeKey()
  const issuer = 'https://provider.test'
  const text = toJwks(key)
  const keys = { value: parseKeys(text), text, path: undefined }
  const app = { metrics: new Registry() } as unknown as FastifyInstance
  const findCaller = acceptJwt(
    app,
    { issuer, audience, claim: 'sub', keys, keysUrl: '' },
    0,
    () => undefined
  )
  // To sign and to verify so many would take a minute.
  let verified = 0
  Object.assign(crypto.subtle, { verify: async () => ++verified > 0 })
  t.teardown(() => Reflect.deleteProperty(crypto.subtle, 'verify'))
  const head = encode({ alg: key.alg, kid: key.kid })
  const claims = { iss: issuer, aud: audience, exp: inSeconds(3_600) }
  const find = (sub: number) =>
    findCaller(`${head}.${encode({ ...claims, sub: `${sub}` })}.AAAA`, {})
  for (let sub = 0; sub < 20_000; sub++) await find(sub)
  t.equal(verified, 20_000)
  t.equal(await find(0), '0')
  t.equal(verified, 20_000, 'the first of them is remembered')
  await find(20_000)
  t.equal(await find(1), '1')
  t.equal(verified, 20_001, 'the second one, too')
  t.equal(await find(0), '0')
  t.equal(verified, 20_002, 'the first one is verified again')
})
