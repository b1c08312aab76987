/** The rate limit: how many requests each caller may make in a second, and what the responses say about it. */
import t from 'tap'
import { until } from '../../dev/until.ts'
import { failure, headers, startService, success } from '../support/service.ts'

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
const refused = failure(
  429,
  'too many requests per second from this caller, this request has stored nothing: try again',
  {
    ...limits(0),
    'retry-after': '1'
  }
)

let lastId = 0
const post = (secret: string, init: RequestInit = {}) =>
  service.post({ id: ++lastId, name: 'n' }, { ...by(secret), ...init })

/** Sends requests of a new caller one after the other within one second, however often a slow machine has to begin again. */
async function inOneSecond<T>(send: (secret: string) => (() => Promise<T>)[]): Promise<T[]> {
  for (;;) {
    const calls = send(secretOf(newCaller()))
    const began = performance.now()
    const responses: T[] = []
    for (const call of calls) responses.push(await call())
    if (performance.now() - began < 1_000) return responses
  }
}

t.test(
  'the fourth create of a second gets 429 and is not stored, one of the next second gets 200',
  async (t) => {
    let caller = ''
    const responses = await inOneSecond((secret) => {
      caller = secret
      return Array.from({ length: 4 }, () => () => post(secret))
    })
    t.strictSame(responses, [created(2), created(1), created(0), refused])
    t.strictSame(await service.rows('select 1 from plants where id = $1', [lastId]), [])
    const next = await until(
      'the second is over',
      () => post(caller),
      ({ status }) => status === 200
    )
    t.strictSame(next, created(2))
  }
)

t.test('all tokens of a caller share its limit, and another caller has its own', async (t) => {
  const responses = await inOneSecond((secret) => {
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
      'the Idempotency-Key must be 1 to 255 visible ASCII characters, with a comma, quote or space only in quotes',
      limits(remaining)
    )
  const responses = await inOneSecond((secret) => [
    ...Array.from({ length: 4 }, () => ask(secret)),
    () => post(`${secret}3`)
  ])
  const unknown = responses.pop()
  t.strictSame(responses, [malformed(2), malformed(1), malformed(0), refused])
  t.equal(JSON.parse(unknown?.body ?? '').error, 401)
})

t.test('a request that is refused for its method or token is not counted', async (t) => {
  const responses = await inOneSecond((secret) => [
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
