/** The listener of metrics: its page under a flood, its formats, and liveness while clients have all connections. */
import { once } from 'node:events'
import { Counter, Registry } from '@prometheus-io/client'
import t, { type Test } from 'tap'
import { connectTo, open, request } from '../../harness/http/raw.ts'
import { createDatabase } from '../../harness/postgres/database.ts'
import { startProcess } from '../../harness/service/process.ts'
import { everyResponse, failure, post, read, startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { createMetricsPage } from '../../src/admin/metrics-page.ts'
import type { Created } from '../../src/plants/repository.ts'

const scrape = 'GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n'
const start = 'HTTP/1.1 200 OK\r\n'

/** Opens so many connections, each of which always waits for 64 pages. Returns what counts the pages. */
async function flood(t: Test, url: string, count: number) {
  let pages = 0
  for (let index = 0; index < count; index++) {
    const socket = connectTo(url)
    t.teardown(() => socket.destroy())
    let rest = ''
    socket.setEncoding('latin1').on('error', () => {})
    socket.on('data', (chunk) => {
      const parts = `${rest}${chunk}`.split(start)
      rest = parts.at(-1)?.slice(-start.length) ?? ''
      pages += parts.length - 1
      socket.write(scrape.repeat(parts.length - 1))
    })
    await once(socket, 'connect')
    socket.write(scrape.repeat(64))
  }
  return () => pages
}

t.test('32 connections that pipeline scrapes: creates go on', async (t) => {
  const service = await startProcess(t, { DATABASE_URL: await createDatabase(t) })
  const [, page = ''] = await service.output(/Metrics at (http:[^"]+)/)
  const received = await flood(t, page, 32)
  await until('the flood is one', () => received() > 100)
  const times: number[] = []
  for (let id = 0; id < 11; id++) {
    const began = performance.now()
    const signal = AbortSignal.timeout(scaled(30_000))
    t.equal((await post(`${service.url}/plants`, { id, name: 'n' }, { signal })).status, 200)
    times.push(performance.now() - began)
  }
  const median = times.sort((a, b) => a - b)[5] as number
  t.comment(`a create takes ${Math.round(median)} ms beside ${received()} pages`)
  t.ok(median < scaled(250), `${median} ms`)
})

/** A registry with one counter of the library's. */
function createRegistry() {
  const registry = new Registry()
  const counter = new Counter({ name: 'things_total', help: 'Things', registers: [registry] })
  let rendered = 0
  const render = registry.metrics.bind(registry)
  registry.metrics = () => {
    rendered++
    counter.inc()
    return render()
  }
  return { registry, rendered: () => rendered }
}

const both = 'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'
const { PROMETHEUS_CONTENT_TYPE: text, OPENMETRICS_CONTENT_TYPE: openMetrics } = Registry

const accepts: [accept: string | undefined, type: string][] = [
  [both, openMetrics],
  [undefined, text],
  ['*/*', text],
  ['text/plain', text],
  ['application/openmetrics-text;q=0', text],
  ['application/openmetrics-text;q=0.2, text/plain', text],
  ['application/openmetrics-text', openMetrics],
  ['text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0', openMetrics]
]

t.test('with exemplars, Accept chooses the format, and neither spoils the other', async (t) => {
  const { registry } = createRegistry()
  const read = createMetricsPage(registry, true)
  const pages = await Promise.all(accepts.map(([accept]) => read(accept)))
  for (const [index, [accept, type]] of accepts.entries()) {
    t.equal(pages[index]?.type, type, `${accept}`)
    const name = type === text ? 'things_total' : 'things'
    const page = `# HELP ${name} Things\n# TYPE ${name} counter\nthings_total \\d\n${type === text ? '' : '# EOF\n'}`
    t.match(`${pages[index]?.bytes}`, new RegExp(`^${page}$`), `${accept}`)
  }
})

t.test('without exemplars, the page is text whatever Accept says', async (t) => {
  const read = createMetricsPage(createRegistry().registry, false)
  for (const [accept] of accepts) t.equal((await read(accept)).type, text, `${accept}`)
})

t.test('scrapes that come together share a page; each has one that is begun after it came', async (t) => {
  const { registry, rendered } = createRegistry()
  const read = createMetricsPage(registry, false)
  const began = performance.now()
  await Promise.all(Array.from({ length: 200 }, () => read(undefined)))
  t.equal(rendered(), 1)
  for (let count = 2; count < 5; count++) {
    t.match(`${(await read(undefined)).bytes}`, new RegExp(`^things_total ${count}$`, 'm'))
    t.equal(rendered(), count)
  }
  t.ok(performance.now() - began >= 290, 'at most ten a second; timers may be a ms early')
})

t.test('a page that cannot be made is made anew for the next scrape', async (t) => {
  const { registry } = createRegistry()
  const { metrics } = registry
  registry.metrics = () => Promise.reject(new Error('not now'))
  const read = createMetricsPage(registry, false)
  await t.rejects(read(undefined), { message: 'not now' })
  registry.metrics = metrics
  t.equal((await read(undefined)).type, text)
})

t.test('clients have all connections: the metrics port is alive', async (t) => {
  const { app, url, metricsUrl, post } = await startService(t, { MAX_CONNECTIONS: '3' })
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  app.plants.create = () => gate
  for (let id = 0; id < 3; id++) {
    const client = await open(t, url)
    client.send(request(`{"id":${id},"name":"n"}`))
  }
  await until('all wait', () => app.connections.pending === 3)
  const refused = failure(503, 'too many connections; this request stored nothing; retry later')
  t.strictSame(await post({ id: 1, name: 'n' }), refused)
  const livez = new URL('/livez', metricsUrl())
  const success = { status: 200, headers: everyResponse }
  t.strictSame(await read(await fetch(livez)), { ...success, body: '{"status":"alive"}' })
  t.strictSame(await read(await fetch(livez, { method: 'HEAD' })), { ...success, body: '' })
  const other = failure(405, 'this path does not support this method', { allow: 'GET, HEAD' })
  t.strictSame(await read(await fetch(livez, { method: 'POST' })), other)
  letGo({ stored: 'created', rows: 1, release() {} })
})
