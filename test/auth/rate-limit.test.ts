/** The rate limit: how much each caller may ask for in a second, and what it is told. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { failure, headers, startService, success, token } from '../support/service.ts'

const other = 'other-secret-0123456789'
const service = await startService(t, {
  AUTH_TOKENS: `tester:${token},tester:${token}2,other:${other}`,
  RATE_LIMIT: '3'
})
const by = (secret: string) => ({ headers: { ...headers, authorization: `Bearer ${secret}` } })

const limits = (remaining: number) => ({
  'ratelimit-limit': '3',
  'ratelimit-remaining': String(remaining),
  'ratelimit-reset': '1'
})
const created = (remaining: number) => {
  const answer = success({ name: 'n' })
  return { ...answer, headers: { ...answer.headers, ...limits(remaining) } }
}
const refused = failure(
  429,
  'too many creates a second by this caller, this request has stored nothing: try again',
  {
    ...limits(0),
    'retry-after': '1'
  }
)

let lastId = 0
const post = (init: RequestInit = {}) => service.post({ id: ++lastId, name: 'n' }, init)

t.afterEach(() => sleep(1_100))

/** Asks one after the other within one second, however often a slow machine has to begin anew. */
async function inOneSecond<T>(calls: (() => Promise<T>)[]): Promise<T[]> {
  for (;;) {
    const began = performance.now()
    const answers: T[] = []
    for (const call of calls) answers.push(await call())
    if (performance.now() - began < 1_000) return answers
    await sleep(1_100)
  }
}

t.test('the fourth create of a second gets 429 and is not stored, the next second has room', async (t) => {
  t.strictSame(await inOneSecond([post, post, post, post]), [created(2), created(1), created(0), refused])
  t.strictSame(await service.rows('select 1 from plants where id = $1', [lastId]), [])
  await sleep(1_100)
  t.strictSame(await post(), created(2))
})

t.test('a caller is one however many tokens it has, and another caller has room of its own', async (t) => {
  const second = () => post(by(`${token}2`))
  const another = () => post(by(other))
  t.strictSame(await inOneSecond([post, second, post, second, another]), [
    created(2),
    created(1),
    created(0),
    refused,
    created(2)
  ])
})

t.test('429 comes before the Idempotency-Key and the body are looked at, and behind 401', async (t) => {
  const bad = (key: string) => ({ headers: { ...headers, 'idempotency-key': key } })
  const ask = () => service.post('not json', bad(''))
  const malformed = (remaining: number) =>
    failure(400, 'the Idempotency-Key must be 1 to 255 visible ASCII characters', limits(remaining))
  t.strictSame(await inOneSecond([ask, ask, ask, ask]), [malformed(2), malformed(1), malformed(0), refused])
  const unknown = await post(by(`${token}3`))
  t.equal(JSON.parse(unknown.body).error, 401)
})

t.test('what is refused for its path, method or token is not counted', async (t) => {
  for (let count = 0; count < 5; count++) {
    await post({ headers: {} })
    await post({ method: 'PUT' })
  }
  t.strictSame(await post(), created(2))
})

t.test('each replica counts by itself', async (t) => {
  const replica = await startService(t, { DATABASE_URL: service.databaseUrl, RATE_LIMIT: '1' })
  t.equal((await post()).status, 200)
  t.equal((await replica.post({ id: ++lastId, name: 'n' })).status, 200)
})
