/** Who may create plants: each request by its own Authorization, and each caller at its own rate. */
import { hash } from 'node:crypto'
import t from 'tap'
import { failure, maskFields, type Reply, success } from '../support/responses.ts'
import { startService } from '../support/service.ts'
import { exchange, parseResponses, request } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const alice = 'alice-secret-0123456789'
const alice2 = 'alice-second-secret-0123456789'
const bobby = 'bobby-secret-0123456789'
const nobody = 'nobodys-secret-0123456789'
const settings = {
  AUTH_TOKENS: `alice:${alice}, alice:${alice2},bobby:sha256:${hash('sha256', bobby).toUpperCase()},${nobody}`
}
const service = await startService(t, settings)
const limited = await startService(t, { ...settings, DATABASE_URL: service.databaseUrl, RATE_LIMIT: '1' })

let lastId = 0
const create = (authorization: string | undefined) =>
  request(`{"id":${++lastId},"name":"n"}`, { authorization })
const created = success({ name: 'n' })
const missing = failure('MissingToken')
const malformed = failure('MalformedToken')
const wrong = failure('InvalidToken')

/** Sends requests at once, and returns their responses. */
async function send(url: string, requests: string[]): Promise<Reply[]> {
  const responses = parseResponses(await exchange(url, requests, { halfClose: true }))
  return responses.map((response) => ({ ...response, headers: maskFields(response.headers) }))
}

const cases: [authorization: string | undefined, response: Reply, caller?: string][] = [
  [`Bearer ${alice}`, created, 'alice'],
  [`Bearer ${alice2}`, created, 'alice'],
  [`Bearer ${bobby}`, created, 'bobby'],
  [`Bearer ${nobody}`, created, 'default'],
  [`bearer ${alice}`, created, 'alice'],
  [`BEARER ${alice}`, created, 'alice'],
  [undefined, missing],
  ['', missing],
  ['Basic dGVzdDp0ZXN0', missing],
  [alice, missing],
  ['Bearer', malformed],
  ['Bearer two tokens', malformed],
  [`Bearer "${alice}"`, malformed],
  [`Bearer ${alice}, Bearer ${bobby}`, malformed],
  [`Bearer alice:${alice}`, malformed],
  ['Bearer \xe4', malformed],
  ['Bearer AAAA', wrong],
  [`Bearer ${alice}x`, wrong],
  [`Bearer ${alice.slice(0, -1)}`, wrong],
  [`Bearer ${alice.toUpperCase()}`, wrong],
  [`Bearer ${hash('sha256', alice)}`, wrong],
  [`Bearer ${hash('sha256', bobby)}`, wrong]
]

t.test('Authorization, between good requests on one connection', async (t) => {
  for (const [authorization, response, caller] of cases) {
    const name = response.headers['error-name'] ?? `created by ${caller}`
    t.test(`${authorization ?? 'none'} → ${name}`, async (t) => {
      const good = [create(`Bearer ${alice}`), create(`Bearer ${bobby}`)] as const
      const id = `request-${lastId}`
      const own = create(authorization).replace('\r\n', `\r\nx-request-id: ${id}\r\n`)
      const found = await send(service.url, [good[0], own, good[1]])
      const expected = { ...response, headers: { ...response.headers, 'x-request-id': id } }
      t.strictSame(found, [created, expected, created])
      if (caller === undefined) return
      const find = () => service.log().find(({ requestId }) => requestId === id)
      t.equal((await until('the line of the log', find)).caller, caller)
    })
  }
})

t.test('RATE_LIMIT', async (t) => {
  const left = { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' }
  const granted = { ...created, headers: { ...created.headers, ...left } }
  const refused = failure('RateLimited', { headers: left })
  const stored = async () => (await limited.rows('select from plants')).length

  t.test('a burst by both secrets of a caller: one a second is stored, others get 429', async (t) => {
    const before = await stored()
    const burst = Array.from({ length: 100 }, (_, index) => create(`Bearer ${index % 2 ? alice : alice2}`))
    const began = performance.now()
    const responses = await send(limited.url, [burst.join('')])
    const seconds = (performance.now() - began) / 1_000
    t.equal(responses.length, burst.length)
    t.strictSame(responses[0], granted)
    const others = responses.filter(({ status }) => status !== 200)
    for (const response of others) t.strictSame(response, refused)
    const served = burst.length - others.length
    // A slow machine takes seconds for the burst, and each of them grants one more.
    t.ok(served <= 1 + seconds, `${served} in ${seconds} s`)
    t.equal((await stored()) - before, served)
  })

  t.test('another caller has a rate of its own, which only requests with its token use up', async (t) => {
    const notJson = (authorization: string) => request('{', { authorization, 'idempotency-key': '' })
    const burst = [...Array.from({ length: 20 }, () => notJson('Bearer AAAA')), create(`Bearer ${bobby}`)]
    const responses = await send(limited.url, burst)
    t.strictSame(responses, [...Array.from({ length: 20 }, () => wrong), granted])
  })

  t.test('after Retry-After the caller is served again', async (t) => {
    const ask = () => send(limited.url, [create(`Bearer ${alice}`)])
    t.strictSame(await until('it is served', ask, ([response]) => response?.status === 200), [granted])
  })
})
