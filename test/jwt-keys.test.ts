/** The keys of an identity provider, while hours of virtual time pass. */
import { randomUUID } from 'node:crypto'
import { Registry } from '@prometheus-io/client'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import { fetchKeys, followProvider, isSafeUrl } from '../src/jwt/keys.ts'
import { makeKey, startProvider, toJwks } from './support/provider.ts'

const hourMs = 3_600_000

t.test('keys are kept for a day while the provider is away, and are back with it', async (t) => {
  let now = 0
  Object.assign(performance, { now: () => now })
  t.teardown(() => Reflect.deleteProperty(performance, 'now'))
  // The timers of the keys alone do not keep the process alive.
  const keep = setInterval(() => {}, hourMs)
  t.teardown(() => clearInterval(keep))
  const hooks: Record<string, () => Promise<unknown>> = {}
  const log = { info() {}, warn() {} }
  const addHook = (name: string, hook: () => Promise<unknown>) =>
    Object.assign(hooks, { [name]: hook })
  const key = makeKey()
  let isAway = false
  let changes = 0
  const load = async () => {
    if (isAway) throw new Error('away')
    return toJwks(key)
  }
  const app = { log, addHook, metrics: new Registry() } as unknown as FastifyInstance
  const find = followProvider(app, load, 0, () => changes++)
  const token = { payload: '', signature: '' }
  const findKey = async (kid: string) => Boolean(await find({ alg: key.alg, kid }, token))
  await hooks.onReady?.()
  t.ok(await findKey(key.kid))
  isAway = true
  for (const hours of [1, 23]) {
    now = hours * hourMs
    await t.rejects(findKey(randomUUID()), {
      name: 'KeysUnavailable',
      message: /keys are unavailable/
    })
    t.ok(await findKey(key.kid), `${hours} hours`)
  }
  t.equal(changes, 1)
  now = 24 * hourMs + 1
  await t.rejects(findKey(randomUUID()), { name: 'KeysUnavailable' })
  t.equal(changes, 2, 'remembered tokens are forgotten, too')
  now += hourMs
  await t.rejects(findKey(key.kid), { name: 'KeysUnavailable' })
  isAway = false
  now += hourMs
  t.ok(await findKey(key.kid))
  now += hourMs
  await t.rejects(findKey(randomUUID()), { code: 'ERR_JWKS_NO_MATCHING_KEY' })
  await hooks.onClose?.()
})

t.test('keys come by https, or from this machine', async (t) => {
  const good = ['https://a.test', 'http://127.0.0.1:1/', 'http://localhost/a?b', 'http://[::1]/']
  const bad = [
    'http://a.test',
    'http://127.0.0.1.a.test/',
    'http://localhost.a.test',
    'https://u@a.test'
  ]
  for (const url of good) t.ok(isSafeUrl(url), url)
  for (const url of [...bad, 'https://u:p@a.test', 'ftp://localhost', 'data:,{}', 'a.test', ''])
    t.notOk(isSafeUrl(url), url)
})

t.test('a fault names the issuer of the document, if that is one short visible line', async (t) => {
  const provider = await startProvider(t)
  const documentUrl = `${provider.issuer}/.well-known/openid-configuration`
  const fault = `${documentUrl} names another issuer`
  const long = `https://${'a'.repeat(192)}`
  const cases: [issuer: unknown, message: string][] = [
    [`${provider.issuer}/`, `${fault}: ${provider.issuer}/`],
    [long, `${fault}: ${long}`],
    [`${long}a`, fault],
    ['https://a.test\nready', fault],
    ['https://é.test', fault],
    ['', fault],
    [[provider.issuer], fault],
    [undefined, fault]
  ]
  for (const [issuer, message] of cases) {
    provider.respond = (_, response) => response.end(JSON.stringify({ issuer }))
    await t.rejects(fetchKeys(provider.issuer, ''), { message }, JSON.stringify(issuer))
  }
})
