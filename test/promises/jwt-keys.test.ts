/** Promise 15b: the keys of an identity provider change, while it is there, away, or unpublished. */
import { randomUUID } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { serverFile, start } from '../support/process.ts'
import {
  audience,
  create,
  created,
  expired,
  invalid,
  type Key,
  makeKey,
  type Respond,
  startProvider,
  toJwks
} from '../support/provider.ts'
import { refuses } from '../support/refusal.ts'
import { failure, type Reply } from '../support/responses.ts'
import { linesOf, token as listed, type Service, startService } from '../support/service.ts'
import { exchange, parseResponses, request } from '../support/sockets.ts'
import { is, until } from '../support/until.ts'

t.jobs = 3

const unpublished = invalid('is signed by a key that its issuer does not publish')
const unavailable = failure('KeysUnavailable')
const metric = async (service: Service, name: string) =>
  (await service.metrics()).value(`plant_store_${name}`)
const lastMissing = (text: string) =>
  linesOf(text).findLast(({ msg }) => msg === "waiting for the identity provider's keys")?.missing

t.test(
  'keys change under load: no request fails, and what withdrawn keys have signed is refused',
  async (t) => {
    const [first, second] = [makeKey('RS256'), makeKey()]
    const provider = await startProvider(t, first)
    const service = await startService(t, provider.settings)
    let signers = [first]
    let isOver = false
    let succeeded = 0
    const failed: Reply[] = []
    const work = async () => {
      while (!isOver) {
        const signer = signers[succeeded % signers.length]
        const reply = await create(service, provider.token({}, {}, signer))
        if (reply.status === 200) succeeded++
        else failed.push(reply)
        await sleep(10)
      }
    }
    const load = Promise.all(Array.from({ length: 8 }, work))
    const succeed = async (count: number) => {
      const enough = succeeded + count
      await until(`${count} more succeed`, () => succeeded >= enough)
    }
    await succeed(30)
    // Without notice: its tokens come with the keys, and old ones are still used.
    provider.keys = [first, second]
    signers = [first, second]
    await succeed(100)
    signers = [second]
    const remembered = provider.token({}, {}, first)
    t.strictSame(await create(service, remembered), created)
    await succeed(10)
    provider.keys = [second]
    // A key id that nobody knows has the keys fetched before the minute is over.
    t.strictSame(await create(service, provider.token({}, {}, makeKey())), unpublished)
    t.strictSame(await create(service, remembered), unpublished)
    await succeed(10)
    isOver = true
    await load
    t.strictSame(failed, [])
  }
)

/** What a provider may respond, and what the log says about it. */
const troubles: [title: string, respond: Respond, missing: RegExp][] = [
  ['an error', (_, response) => response.writeHead(500).end(), /: status 500$/],
  [
    'a redirect',
    (_, response) => response.writeHead(302, { location: '/lure' }).end(),
    /: status 302$/
  ],
  [
    'a page',
    (_, response) => response.end('<html>'),
    /: Unexpected token '<'.* is not valid JSON$/
  ],
  ['a text', (_, response) => response.end('"keys"'), / names another issuer$/],
  ['nothing', (_, response) => response.end(), /: Unexpected end of JSON input$/],
  [
    '10 MB',
    (_, response) => response.end(Buffer.alloc(1e7, ' ')),
    /: more than 1048576 characters$/
  ],
  [
    'half',
    (request, response) => response.write('{', () => request.destroy()),
    /: (other side closed|read ECONNRESET)$/
  ],
  ['no response', () => {}, /: The operation was aborted due to timeout$/]
]

t.test('a start waits for the keys, and says why', async (t) => {
  const provider = await startProvider(t, makeKey())
  const { respond, issuer } = provider
  const asJson =
    (document: object, keys?: unknown): typeof respond =>
    (request, response) => {
      const isDocument = request.url?.endsWith('configuration')
      response.end(JSON.stringify(isDocument ? document : keys))
    }
  const good = { issuer, jwks_uri: `${issuer}/keys` }
  const { d, ...rest } = makeKey().privateKey.export({ format: 'jwk' })
  const all: typeof troubles = [
    ...troubles,
    [
      'another issuer',
      asJson({ ...good, issuer: `${issuer}/` }),
      / names another issuer: http:\/\/127\.0\.0\.1:\d+\/$/
    ],
    [
      'keys in clear text',
      asJson({ ...good, jwks_uri: 'http://192.0.2.1/' }),
      / must have a jwks_uri with https$/
    ],
    ['no place of keys', asJson({ issuer }), / must have a jwks_uri with https$/],
    ['no keys', asJson(good, { keys: [] }), /^must be a JWKS with a public key/],
    [
      'a private key',
      asJson(good, { keys: [{ ...rest, d }] }),
      /^must be a JWKS with a public key/
    ],
    ['a secret', asJson(good, { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] }), /^must be a JWKS/],
    ['no list', asJson(good, { keys: 'none' }), /^must be a JWKS with a public key/]
  ]
  await provider.goAway()
  const { databaseUrl } = await startService(t)
  const running = start(t, serverFile, {
    ...provider.settings,
    HOST: '127.0.0.1',
    PORT: '0',
    DATABASE_URL: databaseUrl,
    STARTUP_TIMEOUT_MS: '600000'
  })
  const missing = () => String(lastMissing(running.text()))
  await until('it waits', missing, (text) => /: connect ECONNREFUSED 127/.test(text))
  await provider.comeBack()
  for (const [title, trouble, text] of all) {
    provider.respond = trouble
    await until(`${title} is told`, missing, (found) => text.test(found))
    t.notMatch(running.text(), /Server listening/, title)
  }
  provider.respond = respond
  await running.output(/the identity provider's keys were fetched/)
  await running.output(/Server listening at/)
  t.notOk(provider.paths.includes('/lure'), 'a redirect is not followed')
  const told = linesOf(running.text()).flatMap(({ missing }) => missing ?? [])
  t.notOk(
    told.some((text, index) => text === told[index - 1]),
    'a reason that stays is told once'
  )
})

t.test('a start without keys ends in one line', async (t) => {
  const { issuer, settings, goAway } = await startProvider(t)
  await goAway()
  const env = {
    DATABASE_URL: 'postgres://u:p@127.0.0.1:1/p',
    STARTUP_TIMEOUT_MS: '1000',
    ...settings
  }
  const where = `${issuer}/.well-known/openid-configuration`
  const reason = `${where}: connect ECONNREFUSED ${issuer.slice('http://'.length)}`
  const log = await refuses(t, serverFile, env, [
    `the identity provider's keys cannot be fetched: ${reason}`
  ])
  t.equal(lastMissing(log), reason)
})

t.test(
  'while the provider is away, known keys serve, and unknown ones are told to wait',
  async (t) => {
    const key = makeKey()
    const provider = await startProvider(t, key)
    const { respond, token } = provider
    const service = await startService(t, provider.settings)
    const remembered = token()
    t.strictSame(await create(service, remembered), created)
    const next = makeKey()
    const later = provider.token({}, {}, next)
    const failures = () => metric(service, 'jwt_keys_failures_total')
    const away: [title: string, act: () => unknown][] = [
      ['is away', () => provider.goAway()],
      ['does not respond', () => provider.comeBack().then(() => (provider.respond = () => {}))],
      ['sends no keys', () => (provider.respond = (_, response) => void response.end('{}'))]
    ]
    for (const [title, act] of away) {
      await act()
      const before = await failures()
      t.strictSame(await create(service, later), unavailable, `${title}: a new key`)
      t.ok((await failures()) > before, `${title}: counted`)
      t.strictSame(await create(service, remembered), created, `${title}: a remembered token`)
      t.strictSame(await create(service, token()), created, `${title}: a known key`)
      t.strictSame(await create(service, listed), created, `${title}: a listed token`)
      t.strictSame(await create(service, token({ exp: 1 })), expired, `${title}: an expired one`)
    }
    // Its body is not asked for while the keys are.
    const fields = {
      authorization: `Bearer ${later}`,
      'content-length': '100',
      expect: '100-continue'
    }
    const responses = parseResponses(await exchange(service.url, [request('', fields)]))
    t.strictSame(
      responses.map(({ headers }) => headers['error-name']),
      ['KeysUnavailable']
    )
    const age = await metric(service, 'jwt_keys_age_seconds')
    t.ok(age > 0, 'the age of the keys')
    provider.respond = respond
    provider.keys = [key, next]
    await until('it is back', async () => (await create(service, later)).status === 200)
    t.ok((await metric(service, 'jwt_keys_age_seconds')) < age, 'the keys are new')
    const isBack = () =>
      service.log().some(({ msg }) => msg === "the identity provider's keys were fetched")
    await until('it is logged', isBack)
  }
)

t.test('made-up key ids are no flood to the provider, and hold few requests', async (t) => {
  const provider = await startProvider(t, makeKey())
  const service = await startService(t, {
    ...provider.settings,
    AUTH_JWT_KEYS_URL: `${provider.issuer}/keys`
  })
  const forged = makeKey()
  const began = performance.now()
  const forge = () => create(service, provider.token({}, { kid: randomUUID() }, forged))
  const flood = await Promise.all(Array.from({ length: 500 }, forge))
  const [waited, refused] = [unpublished, unavailable].map(
    ({ body }) => flood.filter((reply) => reply.body === body).length
  )
  t.equal(Number(waited) + Number(refused), 500)
  t.ok(Number(waited) >= 64 && Number(refused) > 0, `${waited} have waited, ${refused} have not`)
  const attempts = 1 + Math.ceil((performance.now() - began) / 5_000) + 1
  t.ok(provider.paths.length <= attempts, `${provider.paths.length} requests to the provider`)
  t.strictSame(await create(service, provider.token()), created)
})

t.test('AUTH_JWT_KEYS_FILE is read again when it changes', async (t) => {
  const [first, second] = [makeKey(), makeKey()]
  const path = join(t.testdir({ keys: toJwks(first) }), 'keys')
  const provider = await startProvider(t, first)
  // Any name of an issuer will do with a file, and no list of tokens is needed.
  const settings = { AUTH_JWT_ISSUER: 'kubernetes/serviceaccount', AUTH_JWT_AUDIENCE: audience }
  const service = await startService(t, { AUTH_TOKENS: '', ...settings, AUTH_JWT_KEYS_FILE: path })
  const make = (key: Key) => provider.token({ iss: settings.AUTH_JWT_ISSUER }, {}, key)
  const remembered = make(first)
  // The second request finds it among all tokens, and the third as the last one of its connection.
  for (let times = 0; times < 3; times++) t.strictSame(await create(service, remembered), created)
  t.strictSame(await create(service, make(second)), unpublished)
  await writeFile(`${path}.new`, toJwks(second))
  await rename(`${path}.new`, path)
  await until('the new key works', async () => (await create(service, make(second))).status === 200)
  t.strictSame(await create(service, remembered), unpublished)
  for (const damage of [() => writeFile(path, '{"keys":[]}'), () => rm(path)]) {
    await damage()
    await until('it is broken', () => metric(service, 'jwt_keys_file_error'), is(1))
    t.strictSame(await create(service, make(second)), created)
  }
  await writeFile(path, toJwks(first, second))
  await until('it is good again', () => metric(service, 'jwt_keys_file_error'), is(0))
  t.strictSame(await create(service, make(first)), created)
  t.strictSame(await create(service, listed), failure('InvalidToken'))
})
