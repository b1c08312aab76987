/** While the service closes, every client that waits for a response still gets the interface's. */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { checkResponses } from '../../harness/http/contract.ts'
import { connectTo, request } from '../../harness/http/raw.ts'
import { createDatabase } from '../../harness/postgres/database.ts'
import { startService } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'

const DATABASE_URL = await createDatabase(t)
let lastId = 0
const plant = () => JSON.stringify({ id: ++lastId, name: 'n' })
const created = '200 {"name":"n"}'
const tooSlow = '400 {"error":408,"message":"the request took too long to arrive; send it again"}'
const malformed = '400 {"error":400,"message":"the request is malformed"}'
const noToken = '400 {"error":401,"message":"a bearer token is required"}'
const head = { 'content-length': '30' }
const half = 'POST /plants HTTP/1.1\r\nhost: te'

/** For tests that wait until something is cut off. */
const short = { HEADERS_TIMEOUT_MS: String(scaled(1_500)), REQUEST_TIMEOUT_MS: String(scaled(3_000)) }

/** Starts a service whose creates end only when it is let go. */
async function startSlow(t: Test, limits: Record<string, string> = {}) {
  const service = await startService(t, { DATABASE_URL, ...limits })
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>()
  const { create } = service.app.plants
  service.app.plants.create = async (plant, origin) => {
    await gate
    return create(plant, origin)
  }
  return { ...service, letGo }
}

/** Opens a connection; returns what is written and, when the server has closed it, all the responses. */
async function open(url: string) {
  const socket = connectTo(url)
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk)).on('error', () => {})
  await once(socket, 'connect')
  return {
    socket,
    send: (text: string) => new Promise<void>((resolve) => socket.write(text, 'latin1', () => resolve())),
    end: async () => {
      if (!socket.closed) await once(socket, 'close')
      const responses = checkResponses(Buffer.concat(chunks))
      return {
        responses: responses.map(({ status, body }) => `${status} ${body}`),
        connection: responses.map(({ headers }) => headers.connection)
      }
    }
  }
}

/** What a connection has sent when the shutdown begins, what it sends afterwards, and what it gets. */
const cases: [string, string, string, string[]][] = [
  ['a request in flight gets 200', request(plant()), '', [created]],
  [
    'requests in flight one after the other get 200',
    request(plant()) + request(plant()),
    '',
    [created, created]
  ],
  [
    'garbage after a request in flight gets 400 after its response',
    request(plant()),
    '\x01\r\n\r\n',
    [created, malformed]
  ],
  [
    'a request without a token after one in flight gets 401 after its response',
    request(plant()),
    request('{}', { authorization: undefined }),
    [created, noToken]
  ],
  [
    'a request after one in flight gets 200 after its response',
    request(plant()),
    request(plant()),
    [created, created]
  ],
  ['a header that is completed gets 200', half, `st\r\n${request(plant()).slice(35)}`, [created]],
  ['a header that is never completed gets 408', half, '', [tooSlow]],
  ['a body that is completed gets 200', request('{"id":9000,', head), '        "name":"n"}', [created]],
  ['a body that is never completed gets 408', request('{"id":', head), '', [tooSlow]],
  [
    'half a body after a request in flight gets 408 after its response',
    request(plant()) + request('{', head),
    '',
    [created, tooSlow]
  ],
  [
    'half a header after a request in flight learns from the response before it that the connection closes',
    request(plant()) + half,
    '',
    [created]
  ],
  ['a request that is refused unread gets 401', half, `st\r\n\r\n`, [noToken]],
  ['a silent connection gets nothing', '', '', []],
  ['a silent connection that speaks up gets 200', '', request(plant()), [created]]
]

t.jobs = 4

for (const [title, before, after, expected] of cases) {
  t.test(`while the service closes, ${title}`, async (t) => {
    const isCutOff = expected.includes(tooSlow) || (before.endsWith(half) && after === '')
    const { app, url, letGo } = await startSlow(t, isCutOff ? short : {})
    const { send, end } = await open(url)
    const arrived = () => [...app.connections.bySocket.keys()][0]?.bytesRead
    const length = (text: string) => Buffer.byteLength(text, 'latin1')
    if (before !== '') await send(before)
    await until('all is read', arrived, (bytes) => bytes === length(before))
    const started = performance.now()
    const closed = app.close()
    await until('it listens no more', () => !app.server.listening)
    if (after !== '') await send(after)
    const isArrived = () => [undefined, length(before + after)].includes(arrived())
    await until('all is read, or the connection is gone', isArrived)
    letGo()
    const { responses, connection } = await end()
    t.strictSame(responses, expected)
    if (expected.length > 0) t.equal(connection.at(-1), 'close')
    await closed
    const took = performance.now() - started
    t.ok(took < scaled(15_000), `closed after ${took} ms`)
  })
}

t.test('while the service closes, a connection that is kept alive and idle is ended at once', async (t) => {
  const { app, url, letGo } = await startSlow(t)
  letGo()
  const { socket, send, end } = await open(url)
  await send(request(plant()))
  await once(socket, 'data')
  const started = performance.now()
  await app.close()
  t.ok(performance.now() - started < scaled(10_000))
  t.strictSame((await end()).responses, [created], 'and not by the time-out for what never arrives')
})

t.test('while it closes, a client that keeps sending after its 408 is read for two seconds', async (t) => {
  const { app, url } = await startSlow(t, short)
  const socket = connectTo(url, { allowHalfOpen: true })
  socket.on('error', () => {}).resume()
  const [served] = await once(app.server, 'connection')
  const cut = once(served, 'close')
  socket.write(half)
  await until('all is read', () => served.bytesRead === half.length)
  const closed = app.close()
  await once(socket, 'end')
  const started = performance.now()
  const timer = setInterval(() => socket.write('x'), 50)
  t.teardown(() => clearInterval(timer))
  await cut
  const tookMs = performance.now() - started
  t.ok(tookMs > 1_500 && tookMs < scaled(15_000), `read for ${tookMs} ms`)
  socket.destroy()
  await closed
})

t.test('while the service closes, responses that their client has not read yet are sent whole', async (t) => {
  const { app, url, letGo } = await startSlow(t, short)
  const count = 12
  const name = 'n'.repeat(1_000_000)
  const { socket, send, end } = await open(url)
  socket.pause()
  const sent = Array.from({ length: count }, () => request(JSON.stringify({ id: ++lastId, name })))
  await send(sent.join(''))
  const [served] = app.connections.bySocket.keys()
  await until('all creates wait', () => app.connections.pending === count)
  letGo()
  await until('responses wait to be read', () => served?.writableLength !== 0)
  const tooLate = await open(url)
  await tooLate.send(half)
  const closed = app.close()
  await until('it listens no more', () => !app.server.listening)
  socket.resume()
  t.strictSame(
    (await end()).responses,
    sent.map(() => `200 {"name":"${name}"}`),
    'and none of them is followed by another'
  )
  t.strictSame((await tooLate.end()).responses, [tooSlow])
  await closed
})

t.test('while it closes, a request that begins when others are too late has its time, too', async (t) => {
  const { app, url, letGo } = await startSlow(t, short)
  const [first, second] = [await open(url), await open(url)]
  await first.send(request(plant()))
  await second.send(half)
  await until('the create is read', () => app.connections.pending === 1)
  const closed = app.close()
  t.strictSame((await second.end()).responses, [tooSlow])
  await first.send(request('{', head))
  await until('both wait', () => app.connections.pending === 2)
  letGo()
  t.strictSame((await first.end()).responses, [created, tooSlow])
  await closed
})

t.test('while it closes, the first request that comes is the last, whatever comes after', async (t) => {
  const { app, url, letGo } = await startSlow(t)
  const { send, end } = await open(url)
  await send(request(plant()))
  await until('it is in flight', () => app.connections.pending === 1)
  const closed = app.close()
  await until('it listens no more', () => !app.server.listening)
  await send(request(plant()))
  await until('the next one is in flight', () => app.connections.pending === 2)
  for (let count = 0; count < 5; count++) await send(request(plant()))
  letGo()
  t.strictSame(await end(), { responses: [created, created], connection: [undefined, 'close'] })
  await closed
})

t.test('while it closes, a client that has its response and still sends does not delay it', async (t) => {
  const { app, url, letGo } = await startSlow(t)
  const socket = connectTo(url, { allowHalfOpen: true })
  socket.on('error', () => {}).resume()
  socket.write(request(plant()))
  await until('it is in flight', () => app.connections.pending === 1)
  const closed = app.close()
  letGo()
  await once(socket, 'end')
  const timer = setInterval(() => socket.write('x'), 100)
  t.teardown(() => clearInterval(timer))
  const started = performance.now()
  await closed
  t.ok(performance.now() - started < scaled(20_000), 'not until REQUEST_TIMEOUT_MS')
})

t.test('an idle service closes at once, and no new connection is taken', async (t) => {
  const { app, url } = await startSlow(t)
  await app.close()
  await t.rejects(open(url), { code: 'ECONNREFUSED' })
})
