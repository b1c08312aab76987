/** Promise 15b: which tokens of an identity provider are good (RFC 8725), and who their callers are. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
// @ts-expect-error: it has no types
import Provider from 'oidc-provider'
import t from 'tap'
import {
  audience,
  create,
  created,
  expired,
  inSeconds,
  invalid,
  type Key,
  makeKey,
  signToken,
  startProvider,
  toJwk,
  toJwks
} from '../support/provider.ts'
import { failure, type Reply } from '../support/responses.ts'
import { headers, token as listed, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

t.jobs = 3

const wrong = failure('InvalidToken')
const badAlgorithm = invalid('is signed by an algorithm that is not allowed')
const badKey = invalid('is signed by a key that its issuer does not publish')
const unavailable = failure('KeysUnavailable')
const unacceptable = failure('UnacceptableCaller', {
  message: "the token's claim sub must be 1 to 255 letters, digits or any of !#$%&'*+,-./:;=?@^_|~"
})
const unnamed = (claim: string) =>
  failure('UnacceptableCaller', { message: `the token has no claim ${claim}` })

t.test('RFC 8725: each attack on a token, and good tokens of each kind', async (t) => {
  const keys = ['ES256', 'RS256', 'PS256', 'EdDSA', 'ES256'].map((alg) => makeKey(alg))
  const [ec, rsa, , ed] = keys as [Key, Key, Key, Key]
  const short = makeKey('RS256', 1024)
  const attacker = makeKey('RS256')
  const provider = await startProvider(t, ...keys)
  const hmac = {
    kty: 'oct',
    kid: 'hmac',
    alg: 'HS256',
    k: Buffer.from('s'.repeat(32)).toString('base64url')
  }
  const jwks = JSON.stringify({ keys: [...keys, short].map(toJwk).concat(hmac as never) })
  const file = join(t.testdir({ 'keys.json': jwks }), 'keys.json')
  const service = await startService(t, { ...provider.settings, AUTH_JWT_KEYS_FILE: file })
  const visits: unknown[] = []
  const lure = createServer((request, response) => {
    visits.push(request.url)
    response.end(toJwks(attacker))
  }).listen(0, '127.0.0.1')
  await once(lure, 'listening')
  t.teardown(() => lure.close())
  const lureUrl = `http://127.0.0.1:${(lure.address() as AddressInfo).port}/keys`

  const { token } = provider
  const claims = { iss: provider.issuer, aud: audience, sub: 'alice', exp: inSeconds(600) }
  const forge = (header: object, key: Key | string = attacker) =>
    signToken(
      typeof key === 'string' ? key : key.privateKey,
      { alg: 'RS256', kid: rsa.kid, ...header },
      claims
    )
  const pem = rsa.publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const [head, body, signature] = token({}, {}, rsa).split('.') as [string, string, string]
  const other = token({ sub: 'bob' }, {}, rsa).split('.')[1]

  const cases: [title: string, token: string, response: Reply][] = [
    ['ES256', token({}, {}, ec), created],
    ['RS256', token({}, {}, rsa), created],
    ['PS256', token({}, {}, keys[2]), created],
    ['EdDSA', token({}, {}, ed), created],
    // Section 2.1, the algorithm.
    ['alg none', forge({ alg: 'none' }), badAlgorithm],
    ['alg nOnE', forge({ alg: 'nOnE' }), badAlgorithm],
    ['alg none with a signature', `${forge({ alg: 'none' })}${signature}`, badAlgorithm],
    ['HMAC by the public key', forge({ alg: 'HS256' }, pem), badAlgorithm],
    [
      'HMAC by the public key as JWK',
      forge({ alg: 'HS256' }, JSON.stringify(toJwk(rsa))),
      badAlgorithm
    ],
    ['HMAC by the public modulus', forge({ alg: 'HS512' }, `${toJwk(rsa).n}`), badAlgorithm],
    [
      'HMAC by a secret in the JWKS',
      forge({ alg: 'HS256', kid: 'hmac' }, 's'.repeat(32)),
      badAlgorithm
    ],
    ['another algorithm than the key has', token({}, { alg: 'PS256' }, rsa), badKey],
    ['no algorithm', `${Buffer.from('{}').toString('base64url')}.${body}.${signature}`, wrong],
    // Sections 2.2 and 3.5, weak keys.
    ['a key of 1,024 bits', token({}, {}, short), unavailable],
    // Sections 2.3 and 3.3, composition, encryption and nesting.
    ['five parts, as encrypted ones have', `${head}.${head}.${head}.${body}.${signature}`, wrong],
    [
      'a nested token',
      signToken(rsa.privateKey, { alg: 'RS256', kid: rsa.kid, cty: 'JWT' }, token()),
      wrong
    ],
    [
      'claims that are a list',
      signToken(rsa.privateKey, { alg: 'RS256', kid: rsa.kid }, [1]),
      wrong
    ],
    [
      'claims that are null',
      signToken(rsa.privateKey, { alg: 'RS256', kid: rsa.kid }, 'null'),
      wrong
    ],
    // Section 3.4, what is signed.
    ['a signature by another key', forge({}), wrong],
    ['claims of another token', `${head}.${other}.${signature}`, wrong],
    ['no signature', `${head}.${body}.`, wrong],
    ['two parts', `${head}.${body}`, wrong],
    ['a cut signature', `${head}.${body}.${signature.slice(0, -4)}`, wrong],
    // Section 3.8, the issuer and the subject.
    ['another issuer', token({ iss: 'https://issuer.test' }), invalid('is of another issuer')],
    ["the issuer's prefix", token({ iss: `${provider.issuer}/` }), invalid('is of another issuer')],
    ['a list of issuers', token({ iss: [provider.issuer] }), invalid('is of another issuer')],
    ['no issuer', token({ iss: undefined }), invalid('is of another issuer')],
    // Section 3.9, the audience.
    ['another audience', token({ aud: 'https://roses.test' }), invalid('is for another audience')],
    ['other audiences', token({ aud: ['a', 'b'] }), invalid('is for another audience')],
    ['no audience', token({ aud: undefined }), invalid('is for another audience')],
    ['one audience of several', token({ aud: ['a', audience] }), created],
    // Section 3.10, what a header says about keys.
    ['its own key', forge({ jwk: toJwk(attacker) }), wrong],
    ['the URL of its own keys', forge({ jku: lureUrl }), wrong],
    ['the URL of its own certificate', forge({ x5u: lureUrl }), wrong],
    ['its own certificate', forge({ x5c: ['MIIB'] }), wrong],
    ['a kid that is a path', forge({ kid: '../../../../dev/null' }), badKey],
    ['a kid that is SQL', forge({ kid: "' union select 'key" }), badKey],
    ['a kid that is no text', forge({ kid: [rsa.kid] }), badKey],
    ['no kid where one key fits', token({}, { kid: undefined }, ed), created],
    ['no kid where two fit', token({}, { kid: undefined }, ec), invalid('does not name its key')],
    ['an extension that must be understood', token({}, { crit: ['exp'], exp: 1 }), wrong],
    ['an unknown critical extension', token({}, { crit: ['x'], x: 1 }), wrong],
    ['an empty list of them', token({}, { crit: [] }), wrong],
    ['claims that are not encoded', token({}, { crit: ['b64'], b64: false }), wrong],
    // Sections 3.11 and 3.12, tokens of another kind.
    ['the type of access tokens', token({}, { typ: 'at+jwt' }), created],
    ['its whole name', token({}, { typ: 'application/at+JWT' }), created],
    ['no type', token({}, { typ: undefined }), created],
    ['a token of a logout', token({}, { typ: 'logout+jwt' }), invalid('is no access token')],
    ['a proof of DPoP', token({}, { typ: 'dpop+jwt' }), invalid('is no access token')],
    // Times.
    ['no end', token({ exp: undefined }), invalid('has no time of expiry')],
    ['an end that is text', token({ exp: `${inSeconds(600)}` }), invalid('has no time of expiry')],
    ['an end an hour ago', token({ exp: inSeconds(-3_600) }), expired],
    ['an end beyond the tolerance', token({ exp: inSeconds(-11) }), expired],
    ['a beginning within the tolerance', token({ nbf: inSeconds(8) }), created],
    ['a beginning in an hour', token({ nbf: inSeconds(3_600) }), invalid('is not valid yet')]
  ]
  for (const [title, token, response] of cases)
    t.strictSame(await create(service, token), response, title)
  await until('an end within the tolerance', async () => {
    return (await create(service, token({ exp: inSeconds(-2) }))).status === 200
  })
  t.strictSame(visits, [], 'no URL of a token was followed')
  t.strictSame(provider.paths, [], 'keys from a file need no provider')

  const lines = JSON.stringify(service.log())
  for (const part of [signature, body, rsa.kid, 'issuer.test', 'roses.test'])
    t.notOk(lines.includes(part), 'nothing of a token is in the log')
})

t.test('the callers of tokens', async (t) => {
  const provider = await startProvider(t, makeKey())
  const keys = { AUTH_JWT_KEYS: toJwks(...provider.keys), RATE_LIMIT: '1' }
  const service = await startService(t, {
    ...provider.settings,
    ...keys,
    AUTH_TOKENS: `tester:${listed}`
  })
  const { token } = provider
  const callers = [
    'alice',
    'o.brien+plants@example.org',
    'auth0|5f7c8ec7c33c6c004bbafe82',
    'system:serviceaccount:shop:orders',
    '248289761001',
    '36f8b6f6-3e3c-4ea4-8b5a-6a8a7e0f7d0e',
    'repo:octo-org/octo-repo:ref:refs/heads/main',
    'spiffe://cluster.local/ns/shop/sa/orders',
    "a!#$%&'*+,-./:;=?@^_|~Z9",
    'a'.repeat(255)
  ]
  for (const caller of callers) {
    t.equal((await create(service, token({ sub: caller }))).status, 200, caller)
    const line = () => service.log().find((line) => line.caller === caller)
    t.match(await until('its line', line), { msg: 'responded', failure: 0 })
  }
  const refused = ['', '(none)', 'a b', 'a"b', 'a\\b', 'a\nb', 'é', 'a'.repeat(256), 7, null, ['a']]
  for (const caller of refused)
    t.strictSame(
      await create(service, token({ sub: caller })),
      unacceptable,
      JSON.stringify(caller)
    )
  t.strictSame(await create(service, token({ sub: undefined })), unnamed('sub'))

  const named = { AUTH_JWT_CALLER: 'https://plants.test/client', DATABASE_URL: service.databaseUrl }
  const other = await startService(t, { ...provider.settings, ...keys, ...named, RATE_LIMIT: '0' })
  const claims = { 'https://plants.test/client': 'shop' }
  t.strictSame(await create(other, token(claims)), created)
  await until('the claim is the caller', () => other.log().some(({ caller }) => caller === 'shop'))
  t.strictSame(await create(other, token()), unnamed('https://plants.test/client'))

  t.test('a rate holds for a caller, whichever token it sends', async (t) => {
    const send = () => create(service, token({ sub: 'tester' }))
    const limited = async () => JSON.parse((await send()).body).error === 429
    await until('the rate of tester is used up', limited)
    const listedToo = async () => JSON.parse((await create(service, listed)).body).error
    // Alternating, one of the two meets the other's request within the same second.
    await until('its listed token meets it', async () => {
      await send()
      return (await listedToo()) === 429
    })
    t.equal((await create(service, token({ sub: 'another' }))).status, 200)
  })
})

t.test('a name is one caller, listed or not: its Idempotency-Keys are the same', async (t) => {
  const provider = await startProvider(t, makeKey())
  const service = await startService(t, {
    ...provider.settings,
    AUTH_JWT_KEYS: toJwks(...provider.keys)
  })
  const send = (token: string) => {
    const fields = { ...headers, 'idempotency-key': 'k', authorization: `Bearer ${token}` }
    return service.post({ id: -1, name: 'n' }, { headers: fields })
  }
  t.strictSame(await send(listed), created)
  t.equal((await send(provider.token({ sub: 'tester' }))).headers['idempotent-replayed'], 'true')
  t.equal((await send(provider.token({ sub: 'alice' }))).headers['error-name'], 'DuplicatePlant')
})

t.test('a remembered token is refused when it has expired', async (t) => {
  const provider = await startProvider(t, makeKey())
  const service = await startService(t, {
    ...provider.settings,
    AUTH_JWT_KEYS: toJwks(...provider.keys)
  })
  await until('one is created and then refused', async () => {
    const token = provider.token({ exp: inSeconds(-8) })
    const first = await create(service, token)
    if (first.status !== 200) return false
    await until('it expires', async () => (await create(service, token)).body === expired.body)
    return true
  })
})

t.test('a provider of the registry: a token of it is good until it expires', async (t) => {
  const jwks = {
    keys: [{ ...makeKey('RS256').privateKey.export({ format: 'jwk' }), kid: 'k', use: 'sig' }]
  }
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  /** Seconds; the tolerance comes on top. */
  let lifetime = 1
  const provider = new Provider(issuer, {
    jwks,
    clients: [
      {
        client_id: 'orders',
        client_secret: 'orders-secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: []
      }
    ],
    ttl: { ClientCredentials: () => lifetime },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: 'plants:create',
          audience,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } }
        })
      }
    }
  })
  server.on('request', provider.callback())
  const service = await startService(t, {
    AUTH_TOKENS: '',
    AUTH_JWT_ISSUER: issuer,
    AUTH_JWT_AUDIENCE: audience,
    AUTH_JWT_CALLER: 'client_id'
  })
  async function fetchToken(): Promise<string> {
    const response = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa('orders:orders-secret')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience })
    })
    const { access_token } = Object(await response.json())
    return access_token
  }
  // On a slow machine, a token may have expired before it is used.
  const [token] = await until(
    'a plant is created',
    async () => {
      const token = await fetchToken()
      return [token, (await create(service, token)).body]
    },
    ([, body]) => body === created.body
  )
  const line = () => service.log().find(({ msg }) => msg === 'responded')
  t.equal((await until('its line', line)).caller, 'orders')
  await until('it expires', async () => (await create(service, `${token}`)).body === expired.body)
  t.strictSame(await create(service, `${token}`), expired)
  lifetime = 600
  t.strictSame(await create(service, await fetchToken()), created)
})

/** Of 10,000 it takes half a minute: JWT_CALLERS=10000. */
const callers = Number(process.env.JWT_CALLERS ?? 1_000)

t.test(`${callers} callers: series and memory are bounded, and each has its rate`, async (t) => {
  const provider = await startProvider(t, makeKey())
  const settings = {
    ...provider.settings,
    AUTH_JWT_KEYS: toJwks(...provider.keys),
    RATE_LIMIT: '1000'
  }
  const service = await startService(t, settings, { flags: ['--max-old-space-size=128'] })
  const tokens = Array.from({ length: callers }, (_, index) =>
    provider.token({ sub: `caller-${index}` })
  )
  const wanted = `${created.body}`
  const createAll = async () => {
    const began = performance.now()
    let next = 0
    const work = async () => {
      for (let index = next++; index < callers; index = next++) {
        const { body } = await create(service, tokens[index] as string)
        if (body !== wanted) throw new Error(body)
      }
    }
    await Promise.all(Array.from({ length: 32 }, work))
    return Math.round(performance.now() - began)
  }
  t.comment({ verifiedMs: await createAll(), rememberedMs: await createAll() })
  const counted = async () => (await service.metrics()).values('plant_store_http_requests_total')
  const total = (all: Record<string, number>) =>
    Object.values(all).reduce((sum, value) => sum + value, 0)
  const all = await until('all are counted', counted, (found) => total(found) >= 2 * callers)
  t.equal(Object.keys(all).filter((label) => label.startsWith('caller-')).length, 200)
  t.equal(all['(other) Success'], 2 * (callers - 200))
})
