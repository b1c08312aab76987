/** The contract on a socket: each of the byte cases (byte-cases.ts) gets exactly its responses. */
import t from 'tap'
import { failureNumbers, maskFields, type Reply } from '../support/responses.ts'
import { startService } from '../support/service.ts'
import { exchange, parseResponses, request } from '../support/sockets.ts'
import {
  coded,
  come,
  created,
  good,
  oldChunked,
  plant,
  refused,
  tables,
  upgrade
} from './byte-cases.ts'

const service = await startService(t)
/** The same with little patience, below a path. */
const hurried = await startService(t, {
  DATABASE_URL: service.databaseUrl,
  BASE_PATH: '/v1/store',
  REQUEST_TIMEOUT_MS: '3000'
})

const seen: Reply[] = []

for (const [subject, cases, { jobs = 1, isHurried = false } = {}] of tables)
  t.test(subject, { jobs }, async (t) => {
    for (const [title, parts, ...expected] of cases) {
      const outcomes = expected.map(({ status, headers }) => headers['error-name'] ?? status)
      t.test(`${title.slice(0, 80)} → ${outcomes.join(', ') || 'no response'}`, async (t) => {
        const { url } = isHurried ? hurried : service
        const responses = parseResponses(await exchange(url, parts, { halfClose: !isHurried }), {
          isHead: title.startsWith('HEAD')
        })
        const found = responses.map((response) => ({
          ...response,
          headers: maskFields(response.headers)
        }))
        t.strictSame(found, expected)
        seen.push(...found)
      })
    }
  })

t.test('a response tells a balancer whether its connection goes on', async (t) => {
  const old = 'POST /plants HTTP/1.0'
  const cases: [bytes: string, connection: string][] = [
    [good(), 'keep-alive'],
    [refused, 'keep-alive'],
    [request(plant(), { connection: 'close' }), 'close'],
    [request(plant(), {}, old), 'close'],
    [request('{', { connection: 'keep-alive' }, old), 'keep-alive'],
    [request('{', { host: undefined }), 'keep-alive'],
    // What is behind them cannot be read: these responses are the last.
    [`${coded('gzip, chunked')}0\r\n\r\n`, 'close'],
    [`${oldChunked}0\r\n\r\n`, 'close'],
    [request('{', { ...upgrade, authorization: undefined }), 'close'],
    [request('{', { expect: 'miracles' }), 'close'],
    [request(plant(), {}, 'POST /plants HTTP/2.0'), 'close'],
    [request(plant(), { x: 'a'.repeat(20_000) }), 'close'],
    ['garbage\r\n\r\n', 'close']
  ]
  for (const [bytes, expected] of cases) {
    const [response] = parseResponses(
      await exchange(service.url, [bytes, come(1)], { halfClose: true })
    )
    t.match(response?.headers, { connection: expected, date: /GMT$/ }, bytes)
    if (response?.status === 200) seen.push(created)
  }
})

t.test('the tables have each failure that a request alone can cause', async (t) => {
  const elsewhere =
    'UnacceptableCaller KeysUnavailable RateLimited RefusedPlant NotReady Internal OutcomeUnknown Overloaded Unavailable DeadlineExceeded'
  const names = new Set(seen.flatMap(({ headers }) => headers['error-name'] ?? []))
  t.strictSame([...names, ...elsewhere.split(' ')].sort(), Object.keys(failureNumbers).sort())
})

t.test(
  'each 200 has stored a plant, no failure has; nothing was a fault of the service',
  async (t) => {
    const [row] = await service.rows('select count(*)::int from plants')
    const stored = seen.filter(
      ({ status, headers }) => status === 200 && !('idempotent-replayed' in headers)
    )
    t.equal(row?.count, stored.length)
    const warnings = [...service.log(), ...hurried.log()].filter(({ level }) => level >= 40)
    t.strictSame(warnings, [])
  }
)
