/** Who may create plants: what each Authorization gets, and how often a caller may create. */
import { hash } from 'node:crypto'
import t from 'tap'
import { type App, ask, build } from './support/build.ts'
import { createMemoryStore } from './support/memory-store.ts'
import { failure, type Reply, success } from './support/responses.ts'
import { headers } from './support/service.ts'
import { until } from './support/until.ts'

const alice = 'alice-secret-0123456789'
const alice2 = 'alice-second-secret-0123456789'
const bobby = 'bobby-secret-0123456789'
const nobody = 'nobodys-secret-0123456789'
const digest = hash('sha256', bobby).toUpperCase()
const AUTH_TOKENS = `alice:${alice}, alice:${alice2},bobby:sha256:${digest},${nobody}`

const app = await build(t, { env: { AUTH_TOKENS } })
let lastCaller = ''
app.addHook('onSend', async ({ caller }) => {
  lastCaller = caller
})

let lastId = 0
/** Sends a create with this Authorization, and returns the response. */
const create = (app: App, authorization: string | undefined, more: Record<string, string> = {}) => {
  const { authorization: _, ...others } = headers
  const fields = { ...others, ...more, ...(authorization !== undefined && { authorization }) }
  const payload = JSON.stringify({ id: ++lastId, name: 'n' })
  return ask(app, { method: 'POST', url: '/plants', headers: fields, payload })
}
const created = success({ name: 'n' })
const missing = failure('MissingToken')
const malformed = failure('MalformedToken')
const wrong = failure('InvalidToken')

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

t.test('each Authorization has its response, and its caller', async (t) => {
  for (const [authorization, response, caller] of cases) {
    t.strictSame(await create(app, authorization), response, `${authorization}`)
    t.equal(lastCaller, caller ?? '', `the caller of ${authorization}`)
  }
})

t.test('RATE_LIMIT', async (t) => {
  const store = createMemoryStore()
  const limited = await build(t, { env: { AUTH_TOKENS, RATE_LIMIT: '1' }, store })
  const left = { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' }
  const granted = { ...created, headers: { ...created.headers, ...left } }
  const refused = failure('RateLimited', { headers: left })

  t.test(
    'a burst by both secrets of a caller: one a second is stored, others get 429',
    async (t) => {
      const began = performance.now()
      const responses: Reply[] = []
      for (let count = 0; count < 100; count++)
        responses.push(await create(limited, `Bearer ${count % 2 ? alice : alice2}`))
      const seconds = (performance.now() - began) / 1_000
      const others = responses.filter(({ headers }) => 'error-name' in headers)
      for (const response of others) t.strictSame(response, refused)
      const served = responses.filter((response) => !others.includes(response))
      t.strictSame(served[0], granted)
      // On a slow machine the burst takes seconds, and each second allows one more request.
      t.ok(served.length <= 1 + seconds, `${served.length} in ${seconds} s`)
      t.equal(store.rows.size, served.length)
    }
  )

  t.test(
    'another caller has a rate of its own, which only requests with its token use up',
    async (t) => {
      for (let count = 0; count < 20; count++)
        t.strictSame(await create(limited, 'Bearer AAAA', { 'idempotency-key': '' }), wrong)
      t.strictSame(await create(limited, `Bearer ${bobby}`), granted)
    }
  )

  t.test('after Retry-After the caller is served again', async (t) => {
    const ask = () => create(limited, `Bearer ${alice}`)
    t.strictSame(await until('it is served', ask, ({ status }) => status === 200), granted)
  })
})
