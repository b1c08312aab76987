/** The counts of how each caller's requests ended. */
import { Registry } from '@prometheus-io/client'
import t from 'tap'
import { connectTo, exchange, request } from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { shows } from '../../harness/service/metrics.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import { headers, startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { catalogue } from '../../src/failures/catalogue.ts'
import { addCounter } from '../../src/metrics/metrics.ts'
import { createCallerCounts, mostCallers } from '../../src/telemetry/callers.ts'

const bob = 'bob-secret-0123456789'
const hidden = 'other-secret-0123456789'
const family = 'plant_store_http_requests_total'
const withToken = (token: string) => ({ headers: { ...headers, authorization: `Bearer ${token}` } })

t.test('the page says which caller fails with what, and its sums are those of the failures', async (t) => {
  const service = await startService(t, { AUTH_TOKENS: `bob:${bob},A.b_c-9:${hidden}`, METRICS_PORT: '0' })
  const { post, url } = service
  await service.rows('alter table plants add constraint no_rose check (name is null or name <> $$rose$$)')
  await post({ id: 1, name: 'n' }, withToken(bob))
  await post({ id: 1, name: 'n' }, withToken(bob))
  await post({ id: 2, name: 'rose' }, withToken(bob))
  await post('', withToken(hidden))
  await post({ id: 3, name: 'n' }, withToken('revoked-secret-0123456789'))
  await fetch(`${url}/livez`)
  await exchange(url, ['hello\r\n\r\n'])
  const holder = await lockTable(t, service.databaseUrl)
  const socket = connectTo(url)
  socket.write(request('{"id":4,"name":"n"}', { authorization: `Bearer ${bob}` }))
  await shows(t, service, 'queue_rows', 1)
  socket.resetAndDestroy()
  const counts = {
    'bob Success': 1,
    'bob DuplicatePlant': 1,
    'bob RefusedPlant': 1,
    'bob ClientLeft': 1,
    'A.b_c-9 MalformedBody': 1,
    '(none) InvalidToken': 1,
    '(none) Success': 1,
    '(none) MalformedRequest': 1
  }
  const { samples, values } = await until(
    'all are counted',
    async () => parseMetrics(await service.metrics()),
    ({ values }) => Object.keys(values(family)).length >= Object.keys(counts).length
  )
  t.strictSame(values(family), counts)
  const byName: Record<string, number> = {}
  for (const { name, labels, value } of samples)
    if (name === family && labels.result !== undefined && labels.result in catalogue && value > 0)
      byName[labels.result] = (byName[labels.result] ?? 0) + value
  t.strictSame(byName, values('plant_store_http_failures_total'))
  t.equal(values('plant_store_database_errors_total')['23514'], 1, 'the SQLSTATE tells of the refused plant')
  for (const result of ['Success', 'Internal', 'Unavailable', 'Overloaded'])
    t.ok(
      samples.some(({ labels }) => labels.caller === 'A.b_c-9' && labels.result === result),
      `${result} is there before it comes`
    )
  await holder.query('rollback')
})

t.test('a caller beyond its rate is counted by name', async (t) => {
  const service = await startService(t, { RATE_LIMIT: '1', AUTH_TOKENS: `bob:${bob}` })
  const last = async () => (await service.post('', withToken(bob))).headers['error-name']
  await until('the rate is used up', last, (name) => name === 'RateLimited')
  await until('it is counted', async () =>
    /requests_total\{caller="bob",result="RateLimited"\} [1-9]/.test(await service.metrics())
  )
})

t.test('100 callers have counts of their own, all others share one', (t) => {
  const { add, read } = createCallerCounts()
  for (let round = 0; round < 2; round++)
    for (let index = 0; index < mostCallers + 50; index++) add(`caller-${index}`, 'InvalidPlant')
  add('', 'NotFound')
  add('other', 'Success')
  add('none', 'Success')
  const samples = read()
  const of = (caller: string, result: string) =>
    samples.filter(({ labels }) => labels.caller === caller && labels.result === result)
  t.equal(new Set(samples.map(({ labels }) => labels.caller)).size, mostCallers + 2)
  t.equal(of('caller-99', 'InvalidPlant')[0]?.value, 2)
  t.strictSame(of('caller-100', 'InvalidPlant'), [])
  t.equal(of('(other)', 'InvalidPlant')[0]?.value, 100)
  t.equal(of('(other)', 'Success')[0]?.value, 2)
  t.equal(of('(none)', 'NotFound')[0]?.value, 1)
  const total = samples.reduce((sum, { value }) => sum + value, 0)
  t.equal(total, 2 * (mostCallers + 50) + 3)
  for (const result of ['Success', 'ClientLeft'])
    t.notOk(result in catalogue, `no failure is called ${result}`)
  t.end()
})

t.test('labels are escaped, whatever they hold', async (t) => {
  const registry = new Registry()
  addCounter(registry, 'odd', 'Odd', () => [{ labels: { caller: 'a"b\\c\nd', result: 'x' }, value: 1 }])
  t.match(await registry.metrics(), 'plant_store_odd_total{caller="a\\"b\\\\c\\nd",result="x"} 1\n')
})
