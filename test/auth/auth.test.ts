/** Each request is authenticated by its own Authorization, whatever came before it on its connection. */
import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Registry } from '@prometheus-io/client'
import t from 'tap'
import { exchange, parseResponses, request } from '../../harness/http/raw.ts'
import { startService } from '../../harness/service/service.ts'
import auth from '../../src/auth/auth.ts'
import { createBareApp } from '../../src/http/bare-app.ts'
import { createLogger } from '../../src/logger.ts'
import telemetry from '../../src/telemetry/requests.ts'

const secrets = { alice: 'alice-secret-0123456789', bobby: 'bobby-secret-0123456789' }
const list = (...names: (keyof typeof secrets)[]) =>
  names.map((name) => `${name}:${secrets[name]}\n`).join('')

const path = join(t.testdir({ tokens: list('alice', 'bobby') }), 'tokens')
const service = await startService(t, { AUTH_TOKENS: '', AUTH_TOKENS_FILE: path })

let lastId = 0
const create = (authorization: string) =>
  request(JSON.stringify({ id: ++lastId, name: 'n' }), { authorization })
const ok = (responses: number) => new RegExp(`^(HTTP/1.1 200[^]*){${responses}}"}$`)
const by = (name: keyof typeof secrets) => `Bearer ${secrets[name]}`
const callers = () => service.log().flatMap(({ caller, msg }) => (msg === 'created' ? [caller] : []))

t.test('each request of a connection belongs to the caller of its own token', async (t) => {
  const names = ['alice', 'alice', 'bobby', 'bobby', 'alice'] as const
  const sent = names.flatMap((name, index) => [create(by(name)), ok(index + 1)])
  const responses = parseResponses(await exchange(service.url, sent, { halfClose: true }))
  const found = responses.map(({ status, body }) => [status, body])
  t.strictSame(
    found,
    names.map(() => [200, '{"name":"n"}'])
  )
  t.strictSame(callers(), names)
})

t.test('beside a good token, a similar one on its connection gets 401', async (t) => {
  const good = by('alice')
  const similar = [good.slice(0, -1), `${good}0`, `${good}=`, `${good.slice(0, -1)}0`, good.toUpperCase()]
  const parts = ['', 'alice', `alice:${secrets.alice}`, hash('sha256', secrets.alice)]
  for (const other of ['', ...similar, ...parts.map((part) => `Bearer ${part}`)]) {
    const sent = [create(good), ok(1), create(other), create(good)]
    const responses = parseResponses(await exchange(service.url, sent, { halfClose: true }))
    const errors = responses.map(({ body }) => JSON.parse(body).error ?? 0)
    t.strictSame(errors, [0, 401, 0], other)
  }
})

t.test('after a reload, a removed token gets 401 at once, also on an open connection', async (t) => {
  const parts = [
    create(by('alice')),
    ok(1),
    async () => {
      await writeFile(path, list('bobby'))
      await service.app.reloadTokens()
    },
    create(by('alice')),
    create(by('bobby'))
  ]
  const responses = parseResponses(await exchange(service.url, parts, { halfClose: true }))
  const errors = responses.map(({ body }) => JSON.parse(body).error ?? 0)
  t.strictSame(errors, [0, 401, 0])
})

t.test('a token is judged at each request: once it has expired, it gets 401', async (t) => {
  const app = await createBareApp(createLogger('silent'), {
    headersTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    keepAliveTimeout: 72_000,
    maxConnections: 100
  })
  t.teardown(() => app.close())
  let isValid = true
  const tokens = { size: 1, findCaller: () => (isValid ? 'alice' : undefined) }
  const registry = new Registry()
  await app.register(auth, { registry, tokens, perSecond: 0 })
  await app.register(telemetry, { registry })
  app.get('/caller', { onRequest: app.authenticate }, ({ caller }) => ({ caller }))
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const ask = async () => (await fetch(`${url}/caller`, { headers: { authorization: by('alice') } })).json()
  t.strictSame(await ask(), { caller: 'alice' })
  isValid = false
  t.match(await ask(), { error: 401 })
})
