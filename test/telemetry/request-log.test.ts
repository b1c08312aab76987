/** The log line of a request, its id, and the addresses that it came from. */
import t from 'tap'
import { connectTo, exchange, parseResponses, request } from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { shows } from '../../harness/service/metrics.ts'
import { parseMetrics } from '../../harness/service/metrics-page.ts'
import {
  everyResponse,
  failure,
  headers,
  maskId,
  post,
  startService,
  success
} from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import { catalogue, type FailureName } from '../../src/failures/catalogue.ts'
import { createLogger } from '../../src/logger.ts'
import { LineBudget } from '../../src/telemetry/request-log.ts'

const service = await startService(t)
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const parentId = '00f067aa0ba902b7'

let lastId = 0
const create = (fields: Record<string, string>, to = service) =>
  to.post({ id: ++lastId, name: 'n' }, { headers: { ...headers, ...fields } })

/** The newest line of a log. */
const newest = (of = service) => of.log().at(-1)

t.test('the line of a success is a line of pino, whatever else its client says', async (t) => {
  const lines: string[] = []
  const quotes = '"\\'
  await create({
    'x-request-id': quotes,
    traceparent: quotes,
    'user-agent': quotes,
    'x-forwarded-for': quotes
  })
  const written = service.logText().split('\n').at(-2) ?? ''
  const { level, time, msg, ...fields } = JSON.parse(written)
  createLogger('info', { write: (line) => void lines.push(line) }).info(fields, msg)
  t.equal(written, lines[0]?.trim().replace(/"time":\d+/, `"time":${time}`))
  t.equal(level, 30)
  t.match(fields, {
    requestId: uuid,
    method: 'POST',
    route: '/plants',
    caller: 'tester',
    client: '127.0.0.1'
  })
  t.ok(Math.abs(time - Date.now()) < 600_000)
})

t.test('an address that is no longer known, as of a closed socket, is left out of the line', async (t) => {
  const ours = await startService(t)
  ours.app.server.prependListener('connection', (socket) =>
    Object.defineProperty(socket, 'remoteAddress', { value: undefined })
  )
  t.equal((await create({}, ours)).status, 200)
  const line = newest(ours)
  t.equal(line.failure, 0)
  t.notOk('client' in line)
})

t.test('above level info a success leaves no line', async (t) => {
  const ours = await startService(t, { LOG_LEVEL: 'warn' })
  t.equal((await create({}, ours)).status, 200)
  t.equal(ours.logText(), '')
})

t.test('a good X-Request-Id is logged and sent back', async (t) => {
  for (const id of ['a', 'Az09._-', 'x'.repeat(128)]) {
    const response = success({ name: 'n' })
    t.strictSame(await create({ 'x-request-id': id }), {
      ...response,
      headers: { ...response.headers, 'x-request-id': id }
    })
    t.equal(newest().requestId, id)
  }
})

t.test('a failure has the X-Request-Id of its request, too', async (t) => {
  const fields = { 'x-request-id': 'mine' }
  t.strictSame(
    await post(`${service.url}/none`, {}, { headers: fields }),
    failure(404, 'no such path', fields)
  )
})

t.test('any other X-Request-Id is replaced by a UUID, the same in the log and in the response', async (t) => {
  for (const id of ['', 'x'.repeat(129), 'a b', 'a,b', '"a"', 'é', '{}', '%0a']) {
    const response = await fetch(`${service.url}/plants`, { headers: { 'x-request-id': id } })
    t.match(response.headers.get('x-request-id'), uuid, id)
    t.equal(newest().requestId, response.headers.get('x-request-id'))
  }
  const twice = request('', { 'x-request-id': 'a', 'X-Request-Id': 'b' })
  const [response] = parseResponses(await exchange(service.url, [twice], { halfClose: true }))
  t.match(response?.headers['x-request-id'], uuid)
})

t.test('the line of a create says how many were written with it', async (t) => {
  const ours = await startService(t, { WRITE_LANES: '1' })
  const { post, log, databaseUrl } = ours
  const holder = await lockTable(t, databaseUrl)
  const first = post({ id: 1, name: 'n' })
  await shows(t, ours, 'lanes_busy', 1)
  const others = [2, 3, 4].map((id) => post({ id, name: 'n' }))
  await shows(t, ours, 'queue_rows', 4)
  await holder.query('rollback')
  for (const response of await Promise.all([first, ...others])) t.equal(response.status, 200)
  const rows = log().flatMap(({ batchRows }) => (batchRows === undefined ? [] : [batchRows]))
  t.strictSame(rows.sort(), [1, 3, 3, 3])
})

t.test('creates that arrive together are written together, although a lane is free', async (t) => {
  const ours = await startService(t)
  const bodies = [1, 2, 3, 4, 5].map((id) => JSON.stringify({ id, name: 'n' }))
  const responses = parseResponses(
    await exchange(ours.url, [bodies.map((body) => request(body)).join('')], { halfClose: true })
  )
  const statuses = responses.map(({ status }) => status)
  t.strictSame(statuses, [200, 200, 200, 200, 200])
  const rows = ours.log().flatMap(({ batchRows }) => batchRows ?? [])
  t.strictSame(rows, [5, 5, 5, 5, 5])
})

t.test("a valid traceparent's trace id is logged", async (t) => {
  for (const flags of ['00', '01', 'ff']) {
    await create({ traceparent: `00-${traceId}-${parentId}-${flags}` })
    t.equal(newest().traceId, traceId, flags)
  }
})

t.test('no other traceparent leaves a trace id', async (t) => {
  const bad = [
    '',
    traceId,
    `01-${traceId}-${parentId}-01`,
    `ff-${traceId}-${parentId}-01`,
    `00-${'0'.repeat(32)}-${parentId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${parentId}-01`,
    `00-${traceId}-${parentId}`,
    `00-${traceId}-${parentId}-01-more`,
    `00-${traceId}0-${parentId}-01`,
    `00-${traceId}-${parentId}-0g`
  ]
  for (const traceparent of bad) {
    t.equal((await create({ traceparent })).status, 200)
    t.notOk('traceId' in newest(), traceparent)
  }
})

t.test('a path that cannot be decoded leaves a line and has the headers of every response', async (t) => {
  const sent = request(
    '{}',
    { 'x-request-id': 'mine', traceparent: `00-${traceId}-${parentId}-01` },
    'POST /%zz HTTP/1.1'
  )
  const [response] = parseResponses(await exchange(service.url, [sent], { halfClose: true }))
  const { date, connection, 'keep-alive': _, ...fields } = response?.headers ?? {}
  t.strictSame(fields, {
    ...everyResponse,
    'error-name': 'MalformedRequest',
    'x-request-id': 'mine',
    'content-length': '50'
  })
  const { time, durationMs, ...line } = newest()
  t.strictSame(line, {
    level: 30,
    requestId: 'mine',
    traceId,
    method: 'POST',
    failure: 400,
    errorName: 'MalformedRequest',
    client: '127.0.0.1',
    msg: 'the request is malformed'
  })
})

t.test('a probe that finds all well leaves a line at level debug alone', async (t) => {
  const before = service.log().length
  await fetch(`${service.url}/livez`)
  t.equal(service.log().length, before)
  const talkative = await startService(t, { LOG_LEVEL: 'debug', DATABASE_URL: service.databaseUrl })
  await fetch(`${talkative.url}/livez`)
  t.match(newest(talkative), { level: 20, method: 'GET', route: '/livez', failure: 0, msg: 'responded' })
})

t.test('bytes that are not a request leave a line with the id of their response', async (t) => {
  const before = service.log().length
  const [response] = parseResponses(await exchange(service.url, ['hello\r\n\r\n'], { halfClose: true }))
  const { time, ...line } = newest()
  t.equal(service.log().length, before + 1)
  t.strictSame(line, {
    level: 30,
    requestId: response?.headers['x-request-id'],
    failure: 400,
    errorName: 'MalformedRequest',
    client: '127.0.0.1',
    msg: 'the request is malformed'
  })
  t.has(maskId(response?.headers ?? {}), everyResponse)
})

t.test('a request whose body breaks off leaves one line', async (t) => {
  const before = service.log().length
  const sent = request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' })
  await exchange(service.url, [sent, 'xyz\r\n'], { halfClose: true })
  t.match(service.log().slice(before), [{ caller: 'tester', failure: 400, msg: 'the request is malformed' }])
  t.equal(service.log().length, before + 1)
})

t.test('a client that resets before its response leaves a line', async (t) => {
  const holder = await lockTable(t, service.databaseUrl)
  const socket = connectTo(service.url)
  socket.write(request(`{"id":${++lastId},"name":"n"}`, { 'x-request-id': 'gone' }))
  await shows(t, service, 'queue_rows', 1)
  socket.resetAndDestroy()
  const line = await until('it is logged', () => service.log().find(({ requestId }) => requestId === 'gone'))
  const { time, durationMs, ...fields } = line
  t.strictSame(fields, {
    level: 30,
    requestId: 'gone',
    method: 'POST',
    route: '/plants',
    caller: 'tester',
    client: '127.0.0.1',
    msg: 'the client left before its response'
  })
  await holder.query('rollback')
})

t.test('X-Forwarded-For is logged beside the address, if it has nothing but addresses', async (t) => {
  const cases: [sent: string | undefined, logged: string | undefined][] = [
    [undefined, undefined],
    ['198.51.100.1', '198.51.100.1'],
    ['203.0.113.9, 2001:DB8::1,10.9.9.9', '203.0.113.9, 2001:DB8::1,10.9.9.9'],
    ['1'.repeat(200), '1'.repeat(200)],
    ['1'.repeat(201), undefined],
    ['', undefined],
    ['unknown, 198.51.100.1', undefined],
    ['[2001:db8::1]:1234, 10.0.0.1', '[2001:db8::1]:1234, 10.0.0.1'],
    ['198.51.100.1"\\', undefined],
    ['[198.51.100.1"]', undefined]
  ]
  for (const [sent, logged] of cases) {
    await create(sent === undefined ? {} : { 'x-forwarded-for': sent })
    const { client, forwardedFor } = newest()
    t.strictSame({ client, forwardedFor }, { client: '127.0.0.1', forwardedFor: logged }, sent ?? 'none')
  }
})

t.test('each level has lines of its own for requests without a caller, at once and in each second', (t) => {
  const budget = new LineBudget(0)
  const take = (level: 'info' | 'warn', count: number, now: number) =>
    Array.from({ length: count }, () => budget.take(level, now)).filter(Boolean).length
  const steps: [
    level: 'info' | 'warn',
    requests: number,
    now: number,
    lines: number,
    unlogged: object | undefined
  ][] = [
    ['info', 100, 0, 100, undefined],
    ['info', 5, 0, 0, { level: 'info', requests: 5 }],
    ['info', 1, 49, 0, { level: 'info', requests: 1 }],
    ['info', 2, 50, 1, { level: 'info', requests: 1 }],
    ['warn', 101, 50, 100, { level: 'warn', requests: 1 }],
    ['info', 30, 1_050, 20, { level: 'info', requests: 10 }],
    ['warn', 20, 1_050, 20, undefined],
    ['info', 1_000, 3_600_000, 100, { level: 'info', requests: 900 }]
  ]
  for (const [level, requests, now, lines, unlogged] of steps) {
    t.equal(take(level, requests, now), lines, `${level}, at ${now} ms`)
    t.strictSame(budget.takeUnlogged(), unlogged)
    t.equal(budget.takeUnlogged(), undefined)
  }
  take('warn', 81, 3_600_000)
  take('warn', 81, 3_600_000)
  take('info', 3, 3_600_000)
  t.strictSame(
    budget.takeUnlogged(),
    { level: 'warn', requests: 65 },
    'the most severe level, and all requests'
  )
  t.end()
})

const floods: [of: string, name: string, send: (url: string, count: number) => Promise<unknown>][] = [
  [
    'requests without a token',
    'MissingToken',
    (url, count) =>
      exchange(url, [request('', { authorization: undefined }).repeat(count)], { halfClose: true })
  ],
  [
    'bytes that are not a request',
    'MalformedRequest',
    (url, count) =>
      Promise.all(Array.from({ length: count }, () => exchange(url, ['hello\r\n\r\n'], { halfClose: true })))
  ]
]
for (const [of, name, send] of floods)
  t.test(`many ${of} leave few lines, one with their number, and hide nothing of others`, async (t) => {
    const ours = await startService(t, { DATABASE_URL: service.databaseUrl })
    const began = performance.now()
    await send(ours.url, 300)
    const elapsedMs = performance.now() - began
    t.equal((await ours.post('')).status, 400)
    t.match(newest(ours), { caller: 'tester', failure: 400 })
    ours.app.isShuttingDown = true
    await fetch(`${ours.url}/readyz`)
    t.match(newest(ours), { level: 40, failure: 503 })
    const count = (page: string) => parseMetrics(page).values('plant_store_http_failures_total')[name] ?? 0
    t.equal(count(await ours.metrics()), 300)
    const ofFlood = () => ours.log().filter(({ msg }) => msg === catalogue[name as FailureName].message)
    const logged = ofFlood().length
    t.ok(logged >= 100 && logged <= 101 + elapsedMs / 50, `${logged} lines in ${elapsedMs} ms`)
    const said = () => ours.log().filter(({ msg }) => msg === 'requests without a caller were not logged')
    await until(
      'the others are counted',
      () => said().reduce((sum, { requests }) => sum + requests, ofFlood().length) === 300
    )
    for (const { time, requests, ...line } of said())
      t.strictSame(line, { level: 30, msg: 'requests without a caller were not logged' })
  })

t.test('requests whose line is below the level are not counted as without a line', async (t) => {
  const ours = await startService(t, { DATABASE_URL: service.databaseUrl, LOG_LEVEL: 'warn' })
  ours.app.isShuttingDown = true
  for (const path of ['/none', '/readyz'])
    await exchange(ours.url, [request('', {}, `GET ${path} HTTP/1.1`).repeat(300)], { halfClose: true })
  ours.app.logUnlogged()
  const lines = ours.log()
  t.strictSame(new Set(lines.map(({ level }) => level)), new Set([40]))
  const requests = lines.reduce((sum, { failure, requests }) => sum + (failure === 503 ? 1 : requests), 0)
  t.equal(requests, 300)
})
