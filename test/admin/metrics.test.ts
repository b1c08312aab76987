/** The metrics page: exact names, types, labels and values, over HTTP. */
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Registry } from '@prometheus-io/client'
import t, { type Test } from 'tap'
import { exchange, parseResponses, request } from '../../harness/http/raw.ts'
import { createDatabase, lockTable, untilBlocked } from '../../harness/postgres/database.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { startProxy } from '../../harness/postgres/proxy.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import {
  failure,
  headers,
  post,
  read,
  replay,
  startService,
  success,
  token
} from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { buildAdminApp } from '../../src/admin/admin.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { createLogger } from '../../src/logger.ts'

const databaseUrl = await createDatabase(t)
const start = (t: Test, env: Record<string, string> = {}) =>
  startService(t, { DATABASE_URL: databaseUrl, ...env })
const duration = 'plant_store_http_request_duration_seconds'
const keyed = (key: string) => ({ headers: { ...headers, 'idempotency-key': key } })

type Service = Awaited<ReturnType<typeof start>>

type Page = ReturnType<typeof parseMetrics>

const readPage = async (service: Service) => parseMetrics(await service.metrics())

/** Reads the page until it shows this; a response is counted a moment after its client has it. */
const shown = (service: Service, what: string, isShown: (page: Page) => boolean) =>
  until(what, () => readPage(service), isShown)

/** Reads the page when this many responses are counted. */
const counted = (service: Service, count: number) =>
  shown(service, `${count} responses are counted`, ({ values }) => sum(values(`${duration}_count`)) >= count)

const sum = (values: Record<string, number>) => Object.values(values).reduce((a, b) => a + b, 0)

t.test('every kind of response is counted by route, method and failure number', async (t) => {
  const service = await start(t)
  t.strictSame(await service.post({ id: 1, name: 'n' }), success({ name: 'n' }))
  t.strictSame(await service.post({ id: 2, name: 'n' }, keyed('a')), success({ name: 'n' }))
  for (let count = 0; count < 2; count++)
    t.strictSame(await service.post({ id: 2, name: 'n' }, keyed('a')), replay({ name: 'n' }))
  await service.post({ id: 1, name: 'n' })
  await service.post({ id: 3 })
  await service.post({ id: 3, name: 'n' }, { headers: {} })
  await service.post({ id: 2, name: 'other' }, keyed('a'))
  await fetch(`${service.url}/plants`)
  await fetch(`${service.url}/livez`)
  await post(`${service.url}/trees`, {})
  const page = await counted(service, 11)
  t.strictSame(page.values(`${duration}_count`), {
    '/plants true POST 0': 4,
    '/plants true POST 409': 1,
    '/plants true POST 422': 2,
    '/plants true POST 401': 1,
    '/plants true GET 405': 1,
    '/livez false GET 0': 1,
    'unknown false POST 404': 1
  })
  t.strictSame(page.values('plant_store_http_failures_total'), {
    DuplicatePlant: 1,
    InvalidPlant: 1,
    MethodNotAllowed: 1,
    MissingToken: 1,
    NotFound: 1,
    ReusedKey: 1
  })
  t.strictSame(page.values('plant_store_plants_total'), { created: 2, replayed: 2 })
  t.strictSame(page.values('plant_store_batch_rows_sum'), { '': 6 })
  t.strictSame(page.values('plant_store_batch_rows_count'), { '': 6 })
  t.strictSame(page.values('plant_store_batch_duration_seconds_count'), { written: 6, found: 4 })
})

t.test('what the objectives count is on the page before the first create', async (t) => {
  const service = await start(t)
  const { samples } = await readPage(service)
  const counts = samples.filter(({ name }) => name === `${duration}_count`)
  const ofInterface = service.app.routes.filter(({ operation }) => operation)
  t.match(ofInterface, [{ method: 'POST', url: '/plants' }])
  t.strictSame(
    counts.map(({ labels, value }) => [...Object.values(labels), value].join(' ')),
    ofInterface.flatMap(({ method, url }) =>
      ['0', '500', '503'].map((failure) => `${url} true ${method} ${failure} 0`)
    )
  )
})

t.test('the page has the metrics of process and build; docs/monitoring.md has all others', async (t) => {
  const service = await start(t)
  await service.post({ id: 10, name: 'n' })
  const { types, samples } = await counted(service, 1)
  for (const name of [
    'process_cpu_seconds_total',
    'process_start_time_seconds',
    'nodejs_gc_duration_seconds'
  ])
    t.ok(name in types, name)
  const [info] = samples.filter(({ name }) => name === 'plant_store_build_info')
  t.match(info, { labels: { version: /^\d+\.\d+\.\d+$/, node_version: process.versions.node }, value: 1 })
})

t.test('a concurrent load: the batches hold what was created', async (t) => {
  const service = await start(t)
  const responses = await Promise.all(
    Array.from({ length: 200 }, (_, index) => service.post({ id: 1_000 + index, name: 'n' }))
  )
  t.ok(responses.every(({ status }) => status === 200))
  const page = await counted(service, 200)
  t.strictSame(page.values('plant_store_plants_total'), { created: 200 })
  const { '': batches = 0 } = page.values('plant_store_batch_rows_count')
  t.ok(batches > 0 && batches < 200, `${batches} batches`)
  const { written, ...cutOff } = page.values('plant_store_batch_duration_seconds_count')
  t.equal(written, batches)
  // On a busy machine, an attempt may be cut off after 100 ms. A look-up finds its plants if it has written them.
  const { '': rows = 0 } = page.values('plant_store_batch_rows_sum')
  t.ok(Object.keys(cutOff).length > 0 ? rows <= 200 : rows === 200, `${rows} rows`)
  for (const name of ['queue_rows', 'queue_bytes', 'lanes_busy', 'pool_waiting', 'database_away'])
    t.strictSame(page.values(`plant_store_${name}`), {}, name)
})

t.test('what is under way, and the limits, are shown as they are', async (t) => {
  const service = await start(t, { WRITE_LANES: '5', WRITE_QUEUE_ROWS: '500', WRITE_QUEUE_BYTES: '2000000' })
  const holder = await lockTable(t, databaseUrl)
  const began = performance.now()
  const waiting = service.post({ id: 20, name: 'four' })
  await untilBlocked(databaseUrl)
  const busy = await shown(
    service,
    'the probe of a late attempt waits for the lock, too',
    ({ values }) => values('plant_store_pool_connections').busy === 2
  )
  await holder.query('rollback')
  t.strictSame(await waiting, success({ name: 'four' }))
  const idle = await shown(
    service,
    'the connections are idle and the create is counted',
    ({ values }) =>
      values('plant_store_pool_connections').idle === 2 &&
      `/plants true POST 0` in values(`${duration}_count`)
  )
  const elapsed = (performance.now() - began) / 1000
  for (const name of [duration, 'plant_store_batch_duration_seconds']) {
    const seconds = sum(idle.values(`${name}_sum`))
    t.ok(seconds > 0 && seconds <= elapsed, `${name} is in seconds: ${seconds} of ${elapsed}`)
  }
  t.strictSame(busy.values('plant_store_pool_connections'), { busy: 2 })
  t.strictSame(idle.values('plant_store_pool_connections'), { idle: 2 })
  const waits = (page: Page) =>
    ['http_requests_in_flight', 'queue_rows', 'queue_bytes', 'lanes_busy'].map(
      (name) => page.values(`plant_store_${name}`)['']
    )
  t.strictSame(waits(busy), [1, 1, 68, 1])
  t.strictSame(waits(idle), [undefined, undefined, undefined, undefined])
  t.ok((busy.values('plant_store_http_connections')[''] ?? 0) >= 1)
  t.strictSame(busy.values('plant_store_queue_rows_limit'), { '': 500 })
  t.strictSame(busy.values('plant_store_queue_bytes_limit'), { '': 2_000_000 })
  t.strictSame(busy.values('plant_store_lanes_limit'), { '': 5 })
  t.strictSame(busy.values('plant_store_http_connections_limit'), { '': 3_072 })
  t.strictSame(busy.values('plant_store_http_body_bytes_limit'), { '': 67_108_864 })
  t.strictSame(idle.values('plant_store_pool_resets_total'), {})

  await service.rows(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'plant-store' and datname = current_database()`
  )
  const reset = await shown(service, 'a reset', ({ value }) => value('plant_store_pool_resets_total') === 1)
  t.strictSame(reset.values('plant_store_pool_resets_total'), { '': 1 })
  const again = await readPage(service)
  t.strictSame(again.values('plant_store_pool_resets_total'), { '': 1 }, 'looking at it does not count')
})

t.test('a commit whose response is lost is repeated, and the plant is created, not replayed', async (t) => {
  const url = new URL(databaseUrl)
  const proxy = await startProxy(t, Number(url.port))
  url.hostname = '127.0.0.1'
  url.port = String(proxy.port)
  const service = await start(t, { DATABASE_URL: url.href })
  proxy.lose(1)
  t.strictSame(await service.post({ id: 30, name: 'n' }, keyed('b')), success({ name: 'n' }))
  t.strictSame(await service.post({ id: 30, name: 'n' }, keyed('b')), replay({ name: 'n' }))
  const page = await counted(service, 2)
  t.strictSame(page.values('plant_store_plants_total'), { created: 1, replayed: 1 })
  t.strictSame(page.values('plant_store_batch_duration_seconds_count'), { written: 1, unknown: 1, found: 2 })
  t.strictSame(page.values('plant_store_batch_rows_sum'), { '': 1 })
})

t.test('no client can make a label: strange methods and paths are folded', async (t) => {
  const service = await start(t)
  const starts = ['PURGE', 'PROPFIND', 'M-SEARCH', 'TRACE'].flatMap((method) => [
    `${method} /plants HTTP/1.1`,
    `${method} /${method} HTTP/1.1`
  ])
  for (let index = 0; index < 20; index++) starts.push(`GET /trees/${index}?x=${index} HTTP/1.1`)
  for (const line of starts) await exchange(service.url, [request('', { connection: 'close' }, line)])
  const page = await counted(service, starts.length)
  t.strictSame(page.values(`${duration}_count`), {
    '/plants true other 405': 4,
    'unknown false other 404': 4,
    'unknown false GET 404': 20
  })
})

t.test('failures that reach no route are counted by name', async (t) => {
  const service = await start(t)
  const send = (text: string) => exchange(service.url, [text])
  await send('what?\r\n\r\n')
  await send(`GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  await send('CONNECT plants:443 HTTP/1.1\r\nhost: plants\r\n\r\n')
  await fetch(`${service.url}/%zz`)
  // This one has begun: it gets its response in its turn, is measured, and counted once.
  const fields = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
  await exchange(service.url, [request('what?\r\n', fields)])
  const page = await counted(service, 2)
  t.strictSame(page.values('plant_store_http_failures_total'), {
    MalformedRequest: 3,
    HeadersTooLarge: 1,
    MethodNotAllowed: 1
  })
  t.strictSame(page.values(`${duration}_count`), { '/plants true POST 400': 1, 'unknown false GET 400': 1 })
})

t.test('a CONNECT to the listener gets its methods', async (t) => {
  const { metricsUrl } = await start(t)
  const bytes = await exchange(metricsUrl(), ['CONNECT plants:443 HTTP/1.1\r\nhost: plants\r\n\r\n'])
  const [response] = parseResponses(bytes)
  t.match(response, { status: 400, headers: { allow: 'GET, HEAD' }, body: '{"error":405,' })
})

t.test('the page is text for Prometheus; HEAD gets its header', async (t) => {
  const { metricsUrl } = await start(t)
  const type = 'text/plain; version=0.0.4; charset=utf-8'
  for (const method of ['GET', 'HEAD']) {
    const response = await fetch(metricsUrl(), { method })
    t.equal(response.status, 200)
    t.equal(response.headers.get('content-type'), type)
    t.match(await response.text(), method === 'GET' ? /^# HELP plant_store_/ : /^$/)
  }
})

t.test("the listener's failures are those of the contract", async (t) => {
  const { metricsUrl } = await start(t)
  t.strictSame(await read(await fetch(new URL('/', metricsUrl()))), failure(404, 'no such path'))
  for (const method of ['POST', 'DELETE', 'PROPFIND']) {
    t.strictSame(
      await read(await fetch(metricsUrl(), { method })),
      failure(405, 'this path does not support this method', { allow: 'GET, HEAD' })
    )
  }
  const [response] = parseResponses(await exchange(metricsUrl(), ['what?\r\n\r\n']))
  t.match(response, { status: 400, body: '{"error":400,"message":"the request is malformed"}' })
  const undecoded = await read(await fetch(new URL('/%zz', metricsUrl())))
  t.strictSame(undecoded, failure(400, 'the request is malformed'))
})

t.test('a page that cannot be made gets 500, and is logged', async (t) => {
  const log: string[] = []
  const registry = new Registry()
  registry.metrics = async () => {
    throw new Error('no metrics today')
  }
  const server = await buildAdminApp(
    registry,
    false,
    createLogger('error', { write: (line) => void log.push(line) })
  )
  const { statusCode, body } = await server.inject('/metrics')
  t.equal(statusCode, 400)
  t.equal(body, '{"error":500,"message":"internal error"}')
  t.equal(log.length, 1)
  t.match(JSON.parse(log[0] ?? ''), {
    msg: 'the metrics page cannot be made',
    err: { message: 'no metrics today' }
  })
})

t.test('an application that is ready does not listen until listenForMetrics is called', async (t) => {
  const port = await freePort()
  const env = { DATABASE_URL: databaseUrl, AUTH_TOKENS: `tester:${token}`, METRICS_PORT: String(port) }
  const app = await buildApp(readConfig(env), createLogger('silent'))
  t.teardown(() => app.close())
  const page = () => fetch(`http://127.0.0.1:${port}/metrics`)
  await app.ready()
  await t.rejects(page(), { cause: { code: 'ECONNREFUSED' } })
  await app.listenForMetrics()
  t.equal((await page()).status, 200)
})

t.test('the listener closes with the application', async (t) => {
  const service = await start(t)
  await service.metrics()
  await service.app.close()
  await t.rejects(service.metrics(), { cause: { code: 'ECONNREFUSED' } })
})

t.test('METRICS_PORT=off: no listener', async (t) => {
  const service = await start(t, { METRICS_PORT: 'off' })
  t.strictSame(await service.post({ id: 40, name: 'n' }), success({ name: 'n' }))
  t.notMatch(service.logText(), /Metrics/)
})

t.test('promtool finds no fault on the page', async (t) => {
  const service = await start(t)
  await service.post({ id: 50, name: 'n' })
  const input = await service.metrics()
  const { error, status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input,
    encoding: 'utf8'
  })
  if (error) t.comment('promtool is not on the PATH: the page was not checked')
  else t.strictSame([status, stdout, stderr], [0, '', ''])
})

t.test('a file of tokens that is broken is shown until it is repaired', async (t) => {
  const path = join(t.testdir({ tokens: `tester:${token}` }), 'tokens')
  const service = await start(t, { AUTH_TOKENS: '', AUTH_TOKENS_FILE: path })
  const states: number[] = []
  for (const text of [`tester:${token}`, 'short', `tester:${token}`]) {
    await writeFile(path, text)
    await service.app.reloadTokens()
    states.push((await readPage(service)).value('plant_store_tokens_file_error'))
  }
  t.strictSame(states, [0, 1, 0])
})
