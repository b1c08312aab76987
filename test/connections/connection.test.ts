/** What a connection waits for: a client that takes nothing, announces what it does not send, or is not read from. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { checkResponses } from '../../harness/http/contract.ts'
import { connectTo, exchange, parseResponses, request } from '../../harness/http/raw.ts'
import { createDatabase } from '../../harness/postgres/database.ts'
import { shows } from '../../harness/service/metrics.ts'
import { startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const DATABASE_URL = await createDatabase(t)
const shortMs = scaled(200)
const documents = 'GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(500)
const tooSlow = '{"error":408,"message":"the request took too long to arrive; send it again"}'

const start = (t: Test, env: Record<string, string>) => startService(t, { DATABASE_URL, ...env })

/** Connects a client that reads nothing at first, and requests more than the kernel holds. */
async function startUnread(t: Test, service: Awaited<ReturnType<typeof start>>, bytes: string) {
  const client = connectTo(service.url, { allowHalfOpen: true })
  t.teardown(() => client.destroy())
  client.on('error', () => {}).pause()
  await once(client, 'connect')
  client.write(bytes)
  const [served] = (await until(
    'it is connected',
    () => [...service.app.connections.bySocket.keys()],
    ([first]) => !!first
  )) as [Socket]
  await until('a response waits to be taken', () => served.writableLength > 0 && served.isPaused())
  return { client, served }
}

async function readAll(client: Socket) {
  const chunks: Buffer[] = []
  client.on('data', (chunk) => chunks.push(chunk)).resume()
  await once(client, 'end')
  return parseResponses(Buffer.concat(chunks))
}

t.test('a client that takes no response is cut off after REQUEST_TIMEOUT_MS, and counted', async (t) => {
  const service = await start(t, { REQUEST_TIMEOUT_MS: String(shortMs) })
  const { client, served } = await startUnread(t, service, documents)
  await until('it is cut off', () => served.destroyed)
  await shows(t, service, 'http_connections_stalled_total', 1)
  await shows(t, service, 'http_requests_in_flight', 0)
  t.ok(service.log().some(({ msg }) => msg === 'client stopped reading its response; connection closed'))
  client.destroy()
})

t.test('a client that takes a little now and then gets all of its responses', async (t) => {
  // The kernel tells the server only when there is room for much.
  const limitMs = 5 * shortMs
  const service = await start(t, { REQUEST_TIMEOUT_MS: String(limitMs) })
  const { client } = await startUnread(t, service, documents.repeat(2))
  const began = performance.now()
  const chunks: Buffer[] = []
  client.on('data', (chunk) => {
    chunks.push(chunk)
    // Longer than the limit in all, each pause much shorter.
    if (performance.now() - began > 2 * limitMs) return
    client.pause()
    setTimeout(() => client.resume(), limitMs / 50)
  })
  client.resume()
  client.end()
  await once(client, 'end')
  t.equal(parseResponses(Buffer.concat(chunks)).length, 1_000)
  await shows(t, service, 'http_connections_stalled_total', 0)
})

t.test('a client that takes nothing of its responses does not keep a closing service open', async (t) => {
  const service = await start(t, { HEADERS_TIMEOUT_MS: String(shortMs) })
  await startUnread(t, service, documents)
  const began = performance.now()
  await service.app.close()
  const tookMs = performance.now() - began
  t.ok(tookMs >= shortMs && tookMs < scaled(30_000), `${tookMs} ms`)
})

t.test('a body whose first byte does not come gets 408 after HEADERS_TIMEOUT_MS', async (t) => {
  const service = await start(t, { HEADERS_TIMEOUT_MS: String(shortMs) })
  const began = performance.now()
  for (const head of [{ 'content-length': '30' }, { 'content-length': '30', expect: '100-continue' }]) {
    const bytes = await exchange(service.url, [request('', head)])
    const responses = checkResponses(bytes)
    const found = responses.map(({ body, headers }) => [body, headers.connection])
    t.strictSame(found, [[tooSlow, 'close']])
  }
  const tookMs = performance.now() - began
  t.ok(tookMs >= 2 * shortMs && tookMs < scaled(30_000), `${tookMs} ms`)
})

t.test('a body that has begun has REQUEST_TIMEOUT_MS', async (t) => {
  const service = await start(t, { HEADERS_TIMEOUT_MS: String(shortMs) })
  const socket = connectTo(service.url)
  t.teardown(() => socket.destroy())
  socket.write(request('{"id":-4711,', { 'content-length': '30' }))
  const began = performance.now()
  await until('the header would be late', () => performance.now() - began > 3 * shortMs)
  socket.write('       "name":"n"}')
  const [bytes] = await once(socket, 'data')
  t.equal(parseResponses(bytes)[0]?.body, '{"name":"n"}')
})

t.test('requests that have come in time are not late because we have not read them', async (t) => {
  const service = await start(t, { HEADERS_TIMEOUT_MS: String(shortMs) })
  const { client } = await startUnread(t, service, documents)
  const began = performance.now()
  await until('the header that is read in part would be late', () => performance.now() - began > 4 * shortMs)
  client.end()
  const responses = await readAll(client)
  t.equal(responses.length, 500)
  t.ok(responses.every(({ status }) => status === 200))
})

t.test('a request that is unfinished when it is read again has its time anew, then 408', async (t) => {
  for (const [unfinished, others] of [
    ['GET /openapi.json HTTP/1.1\r\nhost:', 500],
    [request('{"id":-4712,', { 'content-length': '30' }), 500]
  ] as const) {
    const service = await start(t, {
      HEADERS_TIMEOUT_MS: String(shortMs),
      REQUEST_TIMEOUT_MS: String(15 * shortMs)
    })
    const { client } = await startUnread(t, service, documents + unfinished)
    const began = performance.now()
    await until('it would be late', () => performance.now() - began > 4 * shortMs)
    const responses = await readAll(client)
    t.equal(responses.length, others + 1)
    t.equal(responses.at(-1)?.body, tooSlow)
    t.equal(responses.at(-1)?.headers.connection, 'close')
  }
})

t.test('a client that waits for its 100 after another response is not late', async (t) => {
  const service = await start(t, { HEADERS_TIMEOUT_MS: String(shortMs), REQUEST_TIMEOUT_MS: String(shortMs) })
  const { create } = service.app.plants
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>()
  service.app.plants.create = async (plant, context) => {
    await gate
    return create(plant, context)
  }
  const began = performance.now()
  const bytes = exchange(
    service.url,
    [
      request('{"id":-4713,"name":"a"}') + request('', { 'content-length': '23', expect: '100-continue' }),
      /100 Continue/,
      '{"id":-4714,"name":"b"}',
      /"b"/
    ],
    { halfClose: true }
  )
  await until('it would be late', () => performance.now() - began > 8 * shortMs)
  letGo()
  const bodies = checkResponses(await bytes).map(({ body }) => body)
  t.strictSame(bodies, ['{"name":"a"}', '{"name":"b"}'])
})
