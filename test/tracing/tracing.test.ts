/** Tracing: the spans of requests, batches and statements at a collector, and nothing of it when it is off. */
import t, { type Test } from 'tap'
import { createDatabase, lockTable } from '../../harness/postgres/database.ts'
import { startServer } from '../../harness/postgres/server.ts'
import { covered, run, startProcess } from '../../harness/service/process.ts'
import { failure, headers, post, success, token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { isTracingOn } from '../../src/config/config.ts'
import { type Span, startCollector } from './collector.ts'

const unset = 0
const error = 2
const server = 2
const client = 3
const settings = { PORT: '0', AUTH_TOKENS: `tester:${token}` }

/** Starts the service with a collector, or without one. */
async function startTraced(t: Test, env: Record<string, string> = {}) {
  const collector = await startCollector(t)
  const url = await createDatabase(t)
  const service = await startProcess(t, {
    ...covered,
    DATABASE_URL: url,
    SHUTDOWN_DELAY_MS: '0',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '100',
    ...env
  })
  const end = async () => {
    service.kill('SIGTERM')
    const ended = await service.ended
    t.equal(ended.code, 0)
    t.equal(ended.stderr, '')
    return ended.stdout
  }
  return { collector, url, address: service.url, service, end, plants: `${service.url}/plants` }
}

t.jobs = 3

t.test('creates with tracing on: the spans of request, batch and statement are linked', async (t) => {
  const { collector, plants, address, end } = await startTraced(t)
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const parent = 'b7ad6b7169203331'
  const traceparent = `00-${traceId}-${parent}-01`
  /** Creates plants until one has its batch. On a busy machine a write may be cut off, and its plant found by a look-up. */
  const createWritten = async () => {
    for (let id = 1; ; id++) {
      const init = { headers: { ...headers, traceparent } }
      const response = await post(`${plants}?secret=query`, { id, name: 'Monstera' }, init)
      t.strictSame(response, success({ name: 'Monstera' }))
      // The span of its batch has ended before, and so has arrived.
      const request = (await collector.named('POST /plants', id))[id - 1]
      const isIts = ({ name, parentSpanId, status }: Span) =>
        name === 'write plants' && parentSpanId === request?.spanId && status.code === unset
      const batch = collector.spans.find(isIts)
      if (batch) return { request, batch, created: id }
    }
  }
  const { request, batch, created } = await createWritten()
  const statement = collector.spans.findLast(
    (span) => span.name.startsWith('pg.query:create plants') && span.parentSpanId === batch.spanId
  )
  t.match(request, { traceId, parentSpanId: parent, kind: server, status: { code: unset } })
  t.strictSame(request?.attributes, {
    'fastify.root': '@fastify/otel',
    'http.request.method': 'POST',
    'http.route': '/plants',
    'http.response.status_code': 200,
    'url.path': '/plants'
  })
  t.match(batch, {
    traceId,
    parentSpanId: request?.spanId,
    status: { code: unset },
    links: [{ traceId, spanId: request?.spanId }]
  })
  t.strictSame(batch.attributes, { 'db.operation.batch.size': 1 })
  t.match(statement, { traceId, parentSpanId: batch.spanId, kind: client, status: { code: unset } })

  const duplicate = await post(plants, { id: 1, name: 'Monstera' })
  t.strictSame(duplicate, failure(409, 'a plant with this id already exists'))
  const refused = (await collector.named('POST /plants', created + 1))[created]
  t.strictSame(refused?.status, { code: unset }, 'a failure of the client is not one of the service')
  t.equal(refused?.attributes['http.response.status_code'], 400)

  t.equal((await fetch(`${address}/livez`)).status, 200)
  t.equal((await fetch(`${address}/readyz?deep`)).status, 200)
  t.equal((await fetch(`${address}/nothing/here?secret=query`)).status, 400)
  const [unknown] = await collector.named('GET')
  t.match(unknown, { status: { code: unset }, attributes: { 'url.path': '/nothing/here' } })

  await end()
  const names = new Set(collector.spans.map(({ name }) => name.replace(/test_\w+/, 'db')))
  t.strictSame([...names].sort(), [
    'GET',
    'POST /plants',
    'find plants',
    'pg.connect',
    'pg.query:create plants db',
    'pg.query:find plants db',
    'write plants'
  ])
  t.match(collector.resources[0], { 'service.name': 'plant-store' })
  for (const secret of [token, 'Monstera', 'query=', 'secret=', 'Bearer'])
    t.notMatch(collector.text(), secret)
})

t.test('the metrics page is OpenMetrics for who takes it, with the trace of a request', async (t) => {
  const { plants, service, end } = await startTraced(t)
  const [, page = ''] = await service.output(/Metrics at (http:[^"]+)/)
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`
  await post(plants, { id: 1, name: 'n' }, { headers: { ...headers, traceparent } })
  const response = await fetch(page, { headers: { accept: 'application/openmetrics-text' } })
  const text = await response.text()
  t.match(response.headers.get('content-type'), /^application\/openmetrics-text/)
  const plain = await fetch(page)
  t.match(plain.headers.get('content-type'), /^text\/plain; version=0.0.4/)
  t.notMatch(await plain.text(), /trace_id|# EOF/)
  const exemplars = text.split('\n').filter((line) => line.includes(traceId))
  t.equal(exemplars.length, 1)
  t.match(
    exemplars[0],
    /^plant_store_http_request_duration_seconds_bucket\{le=".+",route="\/plants",.*\} 1 # \{trace_id="\w{32}"\} [\d.e-]+ [\d.]+$/
  )
  t.match(text, /^# TYPE plant_store_plants counter$/m)
  t.match(text, /^plant_store_plants_total\{outcome="created"\} 1$/m)
  t.match(text, /^nodejs_version_info/m)
  t.equal(text.split('# EOF').length, 2)
  t.ok(text.endsWith('\n# EOF\n'))
  await end()
})

t.test('concurrent creates: one batch is linked to several requests', async (t) => {
  const { collector, plants, end } = await startTraced(t, { WRITE_LANES: '1', OTEL_SERVICE_NAME: 'nursery' })
  const responses = await Promise.all(
    Array.from({ length: 40 }, (_, index) => post(plants, { id: index, name: 'n' }))
  )
  for (const response of responses) t.strictSame(response, success({ name: 'n' }))
  await end()
  const requests = await collector.named('POST /plants', 40)
  const batches = await collector.named('write plants')
  t.equal(requests.length, 40)
  t.ok(batches.length < 40, `${batches.length} batches`)
  t.ok(batches.some(({ links }) => links.length > 1))
  for (const { links, attributes } of batches) t.equal(attributes['db.operation.batch.size'], links.length)
  const linked = (spans: typeof batches) => spans.flatMap(({ links }) => links.map(({ spanId }) => spanId))
  // On a busy machine an attempt may be cut off: its rows are looked up, or written by others.
  const attempts = [...batches, ...collector.spans.filter(({ name }) => name === 'find plants')]
  const whole = attempts.filter(({ status }) => status.code !== error)
  t.strictSame(new Set(linked(whole)), new Set(requests.map(({ spanId }) => spanId)))
  if (whole.length === attempts.length) t.equal(linked(whole).length, 40, 'each request is in one batch')
  t.match(collector.resources[0], { 'service.name': 'nursery' })
})

t.test('requests that the sampler leaves out: 200, and no span of them or their batch', async (t) => {
  const { collector, plants, end } = await startTraced(t, { OTEL_TRACES_SAMPLER: 'always_off' })
  t.strictSame(await post(plants, { id: 1, name: 'n' }), success({ name: 'n' }))
  await end()
  t.strictSame(collector.spans, [])
})

t.test('a locked table: the spans of the request, the batch and the statement are errors', async (t) => {
  const { collector, plants, url, end } = await startTraced(t, { WRITE_DEADLINE_MS: String(scaled(12_000)) })
  const holder = await lockTable(t, url)
  const response = await post(plants, { id: 1, name: 'n' })
  t.equal(response.status, 400)
  t.equal(JSON.parse(response.body).error, 503)
  await holder.query('rollback')
  const [request] = await collector.named('POST /plants')
  t.equal(request?.status.code, error)
  t.match(request?.status.message, /^(DeadlineExceeded|OutcomeUnknown)$/)
  const [batch] = await collector.named('write plants')
  t.strictSame(batch?.status, { code: error, message: 'busy' })
  await end()
  const statements = collector.spans.filter(({ name }) => name.startsWith('pg.query:create plants'))
  t.strictSame(statements[0]?.status, { code: error })
  t.notMatch(collector.text(), 'canceling statement')
})

t.test('an outage: the probes that detect its end belong to no request', async (t) => {
  const database = await startServer(t)
  const { collector, plants, service, end } = await startTraced(t, {
    DATABASE_URL: database.url,
    WRITE_DEADLINE_MS: '1500'
  })
  await database.down()
  t.equal(JSON.parse((await post(plants, { id: 1, name: 'n' })).body).error, 503)
  await service.output(/"the database has been unreachable/)
  await database.up()
  await service.output(/"the database is back"/)
  let id = 1
  // A fresh id each time: the one before may be stored.
  const ask = () => post(plants, { id: ++id, name: 'n' })
  t.strictSame(await until('a create succeeds', ask, ({ status }) => status === 200), success({ name: 'n' }))
  await end()
  const attempts = new Set(
    collector.spans.filter(({ name }) => name === 'write plants').map(({ spanId }) => spanId)
  )
  const statements = collector.spans.filter(({ name }) => name.startsWith('pg.query:'))
  t.ok(statements.length > 0)
  const orphans = statements.filter(
    ({ parentSpanId = '' }) => parentSpanId !== '' && !attempts.has(parentSpanId)
  )
  t.strictSame(orphans, [])
})

t.test('a collector that is away: 200, a warning, and a prompt end', async (t) => {
  const { plants, end } = await startTraced(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_EXPORTER_OTLP_TIMEOUT: '300'
  })
  t.strictSame(await post(plants, { id: 1, name: 'n' }), success({ name: 'n' }))
  const began = performance.now()
  t.match(await end(), 'spans cannot be sent')
  t.ok(performance.now() - began < scaled(20_000))
})

t.test('an exporter or a protocol that is not supported: one line, and no start', async (t) => {
  const env = { ...settings, ...covered, DATABASE_URL: 'postgres://127.0.0.1/plants' }
  t.strictSame(await run(t, ['src/server.ts'], { ...env, OTEL_TRACES_EXPORTER: 'zipkin' }), {
    code: 1,
    stdout: '',
    stderr: 'plant-store: OTEL_TRACES_EXPORTER must be otlp or none\n'
  })
  const grpc = { ...env, OTEL_TRACES_EXPORTER: 'otlp', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
  t.strictSame(await run(t, ['src/server.ts'], grpc), {
    code: 1,
    stdout: '',
    stderr: 'plant-store: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf\n'
  })
})

t.test('tracing off: nothing of OpenTelemetry but its API is loaded; on: its SDK is', async (t) => {
  // Node lists each CommonJS module that it loads, and all of OpenTelemetry's are.
  // The API alone does nothing; the metrics' library loads it.
  const loads = /node_modules\/@(opentelemetry\/(?!api\/|api\b)|fastify\/otel)/
  const env = {
    ...settings,
    NODE_DEBUG: 'module',
    DATABASE_URL: 'postgres://127.0.0.1:1/plants',
    STARTUP_TIMEOUT_MS: '1'
  }
  const off = await run(t, ['src/server.ts'], env)
  t.equal(off.code, 1)
  t.match(off.stderr, /node_modules\/pg\//, 'the listing works')
  t.notMatch(off.stderr, loads)
  const on = await run(t, ['src/server.ts'], { ...env, OTEL_TRACES_EXPORTER: 'otlp' })
  t.match(on.stderr, loads)
})

t.test('the variables that turn tracing on and off', async (t) => {
  const otlp = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
  t.equal(isTracingOn({}), false)
  t.equal(isTracingOn({ OTEL_SERVICE_NAME: 'plants', OTEL_EXPORTER_OTLP_ENDPOINT: '' }), false)
  t.equal(isTracingOn(otlp), true)
  t.equal(isTracingOn({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/v1/traces' }), true)
  t.equal(isTracingOn({ OTEL_TRACES_EXPORTER: 'otlp' }), true)
  t.equal(isTracingOn({ ...otlp, OTEL_TRACES_EXPORTER: 'none' }), false)
  t.equal(isTracingOn({ ...otlp, OTEL_SDK_DISABLED: 'TRUE' }), false)
  t.equal(isTracingOn({ ...otlp, OTEL_SDK_DISABLED: 'false' }), true)
})
