/** Promise 17, the spans: what OpenTelemetry's variables make the service send, and what it never sends. */
import t from 'tap'
import { startCollector } from '../support/collector.ts'
import { lockTable, untilBlocked } from '../support/postgres/database.ts'
import { serverFile } from '../support/process.ts'
import { type Env, hidden, refuses, type Says } from '../support/refusal.ts'
import { failure, success } from '../support/responses.ts'
import { headers, post, send, startService, token } from '../support/service.ts'
import { exchange, request } from '../support/sockets.ts'
import { is, until } from '../support/until.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parent = 'b7ad6b7169203331'
const traced = { ...headers, traceparent: `00-${traceId}-${parent}-01` }

/** Starts the service with a collector. */
async function startTraced(env: Record<string, string> = {}) {
  const collector = await startCollector(t)
  const settings = {
    WRITE_LANES: '1',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '100'
  }
  const service = await startService(t, { ...settings, ...env })
  const end = async () => {
    service.kill('SIGTERM')
    return (await service.ended).code
  }
  return { ...service, collector, plants: `${service.url}/plants?secret=query`, end }
}

t.test('a request has a span in the trace of its traceparent, and its batch another', async (t) => {
  const { collector, plants, rows, url, databaseUrl, metrics, end } = await startTraced()
  const create = (id: number) => post(plants, { id, name: 'Monstera' }, { headers: traced })
  const spanOf = async (number: number) =>
    (await collector.named('POST /plants', number))[number - 1]

  t.strictSame(await create(1), success({ name: 'Monstera' }))
  const span = await spanOf(1)
  t.match(span, { traceId, parentSpanId: parent, kind: '2', isError: false })
  const attributes = {
    'http.response.status_code': '200',
    'url.path': '/plants',
    'http.route': '/plants'
  }
  t.match(span?.attributes, attributes)
  const [batch] = await collector.named('write plants')
  t.match(batch, { traceId, parentSpanId: span?.spanId, links: [span?.spanId] })
  t.match(collector.resources[0], { 'service.name': 'plant-store' })

  t.strictSame(await create(1), failure('DuplicatePlant'))
  t.equal((await spanOf(2))?.isError, false, "a client's failure is none of the service")
  await rows('alter table plants rename to gone')
  t.strictSame(await create(2), failure('Internal'))
  t.equal((await spanOf(3))?.isError, true)
  await rows('alter table gone rename to plants')

  const holder = await lockTable(t, databaseUrl)
  const responses = [create(3)]
  await untilBlocked(databaseUrl)
  responses.push(...[4, 5, 6].map(create))
  await until('all wait', async () => (await metrics()).value('plant_store_queue_rows'), is(4))
  await holder.query('rollback')
  for (const { status } of await Promise.all(responses)) t.equal(status, 200)
  const body = '{"id":7,"name":"n"}'
  const late = request(body, {
    traceparent: traced.traceparent,
    expect: '100-continue',
    connection: 'close'
  })
  await exchange(url, [late.slice(0, -body.length), /^HTTP\/1.1 100 /, body])
  await send(`${url}/livez`, { method: 'GET' })
  await send(`${url}/nothing/here?secret=query`, { method: 'GET' })
  t.equal(await end(), 0)

  const requests = collector.spans.filter(({ kind }) => kind === '2')
  const names = new Set(requests.map(({ name }) => name))
  t.strictSame([...names].sort(), ['GET', 'POST /plants'], 'none of a probe')
  const batches = collector.spans.filter(({ name }) => name === 'write plants')
  const linked = new Set(batches.flatMap(({ links }) => links))
  const creates = requests.filter(({ name }) => name === 'POST /plants').map(({ spanId }) => spanId)
  t.strictSame(linked, new Set(creates), 'batches link all creates')
  t.ok(
    batches.some(({ links }) => links.length > 1),
    'a batch links several'
  )
  for (const expected of [true, false])
    t.ok(
      batches.some(({ isError }) => isError === expected),
      `batches that are errors: ${expected}`
    )
  for (const secret of [token, 'Monstera', 'query=', 'secret=', 'Bearer', 'does not exist'])
    t.notMatch(collector.text(), secret)
})

t.test("the line of a request has the id of its span's trace", async (t) => {
  const { collector, url, log, end } = await startTraced()
  const byId = (id: string) => log().find(({ requestId }) => requestId === id)
  let creates = 0
  let others = 0
  const plant = { id: 1, name: 'n' }
  const requests: [id: string, method: string, path: string, fields: object][] = [
    ['a-create', 'POST', '/plants', headers],
    ['a-duplicate', 'POST', '/plants', headers],
    ['of-a-trace', 'POST', '/plants', traced],
    ['no-trace', 'POST', '/plants', { ...headers, traceparent: '00-0-0-01' }],
    ['no-token', 'POST', '/plants', {}],
    ['no-path', 'GET', '/nothing/here', {}],
    ['no-text', 'GET', '/%zz', {}]
  ]
  const ids = new Set<unknown>()
  for (const [id, method, path, fields] of requests) {
    await send(
      url + path,
      { method, headers: { ...fields, 'x-request-id': id } },
      JSON.stringify(plant)
    )
    const line = await until(`the line of ${id}`, () => byId(id))
    const count = path === '/plants' ? ++creates : ++others
    const span = (await collector.named(path === '/plants' ? 'POST /plants' : 'GET', count)).at(-1)
    t.equal(line.traceId, span?.traceId, id)
    ids.add(line.traceId)
  }
  t.ok(ids.has(traceId))
  t.equal(ids.size, requests.length)
  // What Node's parser refuses is no request, and has no span.
  await exchange(url, ['hello\r\n\r\n'], { halfClose: true })
  const refused = await until('its line is there', () =>
    log().find(({ errorName, method }) => errorName === 'MalformedRequest' && !method)
  )
  t.notOk('traceId' in refused)
  t.equal(await end(), 0)
})

for (const off of [{ OTEL_TRACES_EXPORTER: 'none' }, { OTEL_TRACES_SAMPLER: 'always_off' }])
  t.test(`${JSON.stringify(off)} turns spans off`, async (t) => {
    const { collector, post, end } = await startTraced(off)
    t.equal((await post({ id: 1, name: 'n' })).status, 200)
    t.equal(await end(), 0)
    t.strictSame(collector.spans, [])
  })

t.test('a collector that is away: the service serves, warns, and ends with 0', async (t) => {
  const away = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_EXPORTER_OTLP_TIMEOUT: '300'
  }
  const { post, output, end } = await startTraced(away)
  t.equal((await post({ id: 1, name: 'n' })).status, 200)
  await output(/"level":40,[^\n]*"spans cannot be sent"/)
  t.equal(await end(), 0)
})

const url = 'must be a URL such as http://collector:4318'
const fields = 'must be name=value, separated by commas and percent-encoded'
const ofLibrary = (text: string) => new RegExp(`^plant-store: OpenTelemetry: [^\\n]*${text}`)
const ratio = 'parentbased_traceidratio'
/** Variables with which the service does not start: its line, or what a line of the library has. No line has a secret. */
const bad: [env: Env, says: Says][] = [
  [{ OTEL_TRACES_EXPORTER: 'zipkin' }, ['OTEL_TRACES_EXPORTER must be otlp or none']],
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, ['OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf']],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: hidden }, [`OTEL_EXPORTER_OTLP_ENDPOINT ${url}`]],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: `http://a:${hidden}@` }, [`OTEL_EXPORTER_OTLP_ENDPOINT ${url}`]],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, [`OTEL_EXPORTER_OTLP_ENDPOINT ${url}`]],
  [
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'tcp://c:1' },
    [`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ${url}`]
  ],
  [{ OTEL_EXPORTER_OTLP_HEADERS: hidden }, [`OTEL_EXPORTER_OTLP_HEADERS ${fields}`]],
  [{ OTEL_EXPORTER_OTLP_HEADERS: `a=b,c d=${hidden}` }, [`OTEL_EXPORTER_OTLP_HEADERS ${fields}`]],
  [
    { OTEL_EXPORTER_OTLP_TRACES_HEADERS: `a=${hidden}%0a` },
    [`OTEL_EXPORTER_OTLP_TRACES_HEADERS ${fields}`]
  ],
  [{ OTEL_EXPORTER_OTLP_TIMEOUT: '10s' }, ofLibrary('OTEL_EXPORTER_OTLP_TIMEOUT')],
  [{ OTEL_EXPORTER_OTLP_COMPRESSION: 'zip' }, ofLibrary('OTEL_EXPORTER_OTLP_COMPRESSION')],
  [{ OTEL_EXPORTER_OTLP_CERTIFICATE: '/nowhere.pem' }, ofLibrary('certificate')],
  [{ OTEL_TRACES_SAMPLER: 'sometimes' }, ofLibrary('OTEL_TRACES_SAMPLER')],
  [
    { OTEL_TRACES_SAMPLER: ratio, OTEL_TRACES_SAMPLER_ARG: '2' },
    ofLibrary('OTEL_TRACES_SAMPLER_ARG')
  ],
  [{ OTEL_TRACES_SAMPLER: ratio }, ofLibrary('OTEL_TRACES_SAMPLER_ARG')],
  [{ OTEL_BSP_SCHEDULE_DELAY: '1s' }, ofLibrary('OTEL_BSP_SCHEDULE_DELAY')]
]

t.test('a bad variable: one line, and no start', { jobs: 4 }, async (t) => {
  const usual = {
    DATABASE_URL: 'postgres://127.0.0.1:1/plants',
    AUTH_TOKENS: token,
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1'
  }
  for (const [env, says] of bad)
    t.test(JSON.stringify(env), (t) => refuses(t, serverFile, { ...usual, ...env }, says))
})
