/** The rate limit: how many requests each caller may make in a second, and what the responses say about it. */
import { inspect, isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { failure, headers, startService, success } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { createRateLimit } from '../../src/auth/rate-limit.ts'

/** Each test, and each of its attempts, has callers of its own: no request of theirs was counted before. */
const callers = Array.from({ length: 200 }, (_, index) => `caller-${index}`)
const secretOf = (caller: string) => `secret-of-${caller}-0123456789`
let nextCaller = 0
const newCaller = () => callers[nextCaller++] as string

const service = await startService(t, {
  AUTH_TOKENS: callers
    .flatMap((caller) => [`${caller}:${secretOf(caller)}`, `${caller}:${secretOf(caller)}2`])
    .join(),
  RATE_LIMIT: '3'
})
const by = (secret: string) => ({ headers: { ...headers, authorization: `Bearer ${secret}` } })

const limits = (remaining: number) => ({
  'ratelimit-limit': '3',
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': '1'
})
const created = (remaining: number) => {
  const response = success({ name: 'n' })
  return { ...response, headers: { ...response.headers, ...limits(remaining) } }
}
const tooMany = 'too many requests per second from this caller; this request stored nothing; retry later'
const refused = failure(429, tooMany, { ...limits(0), 'retry-after': '1' })

let lastId = 0
const post = (secret: string, init: RequestInit = {}) =>
  service.post({ id: ++lastId, name: 'n' }, { ...by(secret), ...init })

/** Sends requests of a new caller one after the other before it gains another, however often a slow machine has to begin again. */
async function atOnce<T>(send: (secret: string) => (() => Promise<T>)[]): Promise<T[]> {
  for (;;) {
    const calls = send(secretOf(newCaller()))
    const began = performance.now()
    const responses: T[] = []
    for (const call of calls) responses.push(await call())
    if (performance.now() - began < 1_000 / 3) return responses
  }
}

/** When requests come, in ms, and how many are left after each: `-` for one that is refused. */
const sequences: [title: string, perSecond: number, steps: string][] = [
  ['a full bucket holds a second of requests', 3, '0: 2 1 0 - -'],
  ['it gains one after its part of a second, and no sooner', 4, '0: 3 2 1 0, 249: -, 250: 0 -'],
  ['a refused request takes nothing', 4, '0: 3 2 1 0 - - -, 100: -, 500: 1 0 -'],
  ['part of a request is kept until it is whole', 2, '0: 1 0, 300: -, 700: 0, 1000: 0 -'],
  ['after a second it is full again', 3, '0: 2 1 0 -, 1000: 2 1 0 -'],
  ['a long rest fills it no further', 3, '0: 2, 1000000000: 2 1 0 -'],
  ['one request a second', 1, '0: 0 -, 999: -, 1000: 0 -']
]

for (const [title, perSecond, steps] of sequences) {
  t.test(`${title}: ${perSecond} a second`, async (t) => {
    let ms = 5_000
    const take = createRateLimit(perSecond, { now: () => ms })
    for (const step of steps.split(', ')) {
      const [at, ...left] = step.split(/:? /)
      ms = 5_000 + Number(at)
      const found = left.map(() => `${take('a') ?? '-'}`)
      t.strictSame(found, left, `after ${at} ms`)
    }
    t.equal(take('b'), perSecond - 1, 'another caller has a bucket of its own')
  })
}

t.test('of requests without end, any one second lets through fewer than twice the limit', async (t) => {
  for (const perSecond of [1, 3, 10, 1_000]) {
    let ms = 0
    const take = createRateLimit(perSecond, { now: () => ms })
    const granted: number[] = []
    for (; ms < 2_500; ms += 0.25) while (take('a') !== undefined) granted.push(ms)
    const most = (withinMs: number) => {
      let first = 0
      return Math.max(
        ...granted.map((at, index) => {
          while (at - (granted[first] as number) >= withinMs) first++
          return index - first + 1
        })
      )
    }
    t.equal(most(1_000), 2 * perSecond - 1, `${perSecond} a second`)
    t.ok(most(82) <= perSecond + 0.082 * perSecond, `${most(82)} in 82 ms of ${perSecond} a second`)
  }
})

t.test('the fourth create at once gets 429 and is not stored; the next gained gets 200', async (t) => {
  let caller = ''
  const responses = await atOnce((secret) => {
    caller = secret
    return Array.from({ length: 4 }, () => () => post(secret))
  })
  t.strictSame(responses, [created(2), created(1), created(0), refused])
  t.strictSame(await service.rows('select 1 from plants where id = $1', [lastId]), [])
  const began = performance.now()
  const ask = () => post(caller)
  const next = await until('it has gained one', ask, ({ status }) => status === 200)
  const gained = Math.floor((performance.now() - began) / (1_000 / 3))
  // It has gained a third of one before, at most.
  const expected = [0, gained, gained - 1].map(created)
  t.ok(
    expected.some((one) => isDeepStrictEqual(one, next)),
    inspect(next)
  )
})

t.test('all tokens of a caller share its limit, and another caller has its own', async (t) => {
  const responses = await atOnce((secret) => {
    const [first, second] = [() => post(secret), () => post(`${secret}2`)]
    return [first, second, first, second, () => post(secretOf(newCaller()))]
  })
  t.strictSame(responses, [created(2), created(1), created(0), refused, created(2)])
})

t.test('429 is decided after 401, and before the Idempotency-Key and the body are checked', async (t) => {
  const ask = (secret: string) => () =>
    service.post('not json', { headers: { ...by(secret).headers, 'idempotency-key': '' } })
  const malformed = (remaining: number) =>
    failure(
      400,
      'Idempotency-Key must be 1 to 255 visible ASCII characters; quote it if it contains a comma, a quote or a space',
      limits(remaining)
    )
  const responses = await atOnce((secret) => [
    ...Array.from({ length: 4 }, () => ask(secret)),
    () => post(`${secret}3`)
  ])
  const unknown = responses.pop()
  t.strictSame(responses, [malformed(2), malformed(1), malformed(0), refused])
  t.equal(JSON.parse(unknown?.body ?? '').error, 401)
})

t.test('a request that is refused for its method or token is not counted', async (t) => {
  const responses = await atOnce((secret) => [
    ...Array.from({ length: 5 }, () => () => post(secret, { headers: {} })),
    ...Array.from({ length: 5 }, () => () => post(secret, { method: 'PUT' })),
    () => post(secret)
  ])
  t.strictSame(responses.at(-1), created(2))
})

t.test('each replica counts by itself', async (t) => {
  const caller = newCaller()
  const replica = await startService(t, {
    DATABASE_URL: service.databaseUrl,
    AUTH_TOKENS: `${caller}:${secretOf(caller)}`,
    RATE_LIMIT: '1'
  })
  t.equal((await post(secretOf(caller))).status, 200)
  t.equal((await replica.post({ id: ++lastId, name: 'n' }, by(secretOf(caller)))).status, 200)
})
