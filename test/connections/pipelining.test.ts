/** Requests that are sent without waiting for responses: only 64 are kept, however many come. */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { checkResponses } from '../../harness/http/contract.ts'
import { connectTo, request } from '../../harness/http/raw.ts'
import { startService } from '../../harness/service/service.ts'
import { is, until } from '../../harness/time/until.ts'
import type { Created } from '../../src/plants/repository.ts'

const flood = 'GET / HTTP/1.1\r\n\r\n'.repeat(20_000)
const probe = request('', { 'content-length': undefined }, 'GET /readyz HTTP/1.1')

/** Starts a service and a client of it; counts the requests that Node has parsed from the client's bytes. */
async function start(t: Test, env: Record<string, string> = {}) {
  const service = await startService(t, env)
  const seen: ServerResponse[] = []
  service.app.server.on('request', (_, response: ServerResponse) => seen.push(response))
  const socket = connectTo(service.url, { allowHalfOpen: true })
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk)).on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return {
    ...service,
    socket,
    /** Requests so far; how many of them wait for their responses. */
    seen: () => seen.length,
    pending: () => seen.filter((response) => !response.writableFinished).length,
    responses: () => checkResponses(Buffer.concat(chunks)).map(({ status, body }) => `${status} ${body}`),
    received: () => Buffer.concat(chunks).toString('latin1')
  }
}

/** Returns when the server has sent all that it will send. */
async function ended(socket: Socket) {
  if (!socket.readableEnded) await once(socket, 'end')
}

/** The server's end of the only connection. */
const served = async ({ app }: { app: { connections: { bySocket: Map<Socket, unknown> } } }) =>
  until('the connection is there', () => [...app.connections.bySocket.keys()][0])

const created: Created = { stored: 'created', rows: 1, release() {} }
const noToken = '400 {"error":401,"message":"a bearer token is required"}'

t.test('what comes after the response to an uninvited body is read and dropped, not parsed', async (t) => {
  const client = await start(t)
  const socket = await served(client)
  const uninvited = request('', { expect: '100-continue', authorization: undefined, 'content-length': '5' })
  client.socket.write(uninvited)
  await until('the response comes', client.received, (text) => text.includes('\r\n\r\n{'))
  client.socket.write(`12345${flood}`)
  await until('all is read', () => socket.bytesRead === uninvited.length + 5 + flood.length)
  t.equal(client.seen(), 1)
  client.socket.end()
  await ended(client.socket)
  t.strictSame(client.responses(), [noToken])
})

t.test('a connection beyond the limit gets one response, whatever comes after', async (t) => {
  const client = await start(t, { MAX_CONNECTIONS: '1' })
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  client.app.plants.create = () => gate
  client.socket.write(request('{"id":1,"name":"n"}'))
  await until('its create waits', client.pending, is(1))
  const second = connectTo(client.url, { allowHalfOpen: true })
  t.teardown(() => second.destroy())
  await until('both are connected', () => client.app.connections.size === 2)
  const [, excess] = [...client.app.connections.bySocket.keys()] as [Socket, Socket]
  let text = ''
  second.on('data', (chunk) => {
    text += chunk
  })
  second.write(probe + flood)
  await until('all is read', () => excess.bytesRead === probe.length + flood.length)
  t.equal(client.seen() <= 64, true, `${client.seen()} requests of one connection`)
  second.end()
  await ended(second)
  t.equal(text.split('HTTP/1.1 ').length - 1, 1)
  t.match(text, /connection: close/)
  letGo(created)
})

t.test('at most 64 requests of a connection wait, and all of them get 200 in the end', async (t) => {
  const client = await start(t)
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  client.app.plants.create = () => gate
  const socket = await served(client)
  const plants = 1_000
  let sent = ''
  for (let id = 0; id < plants; id++) sent += request(JSON.stringify({ id, name: `${id}` }))
  client.socket.write(sent)
  await until('64 wait', client.pending, (pending) => pending >= 64)
  t.equal(client.seen(), 64)
  const [connection] = client.app.connections.bySocket.values()
  await until('the body of the last one is read', () => connection?.isArriving === false)
  t.ok(socket.isPaused())
  t.ok(socket.readableLength <= 2 ** 17, `${socket.readableLength} bytes are held`)
  const most: number[] = []
  client.app.server.prependListener('request', () => most.push(client.pending()))
  letGo(created)
  await until('all have come', client.seen, is(plants))
  await until('none waits', client.pending, is(0))
  t.ok(Math.max(...most) <= 64, `${Math.max(...most)} wait`)
  client.socket.end()
  await ended(client.socket)
  t.strictSame(
    client.responses(),
    Array.from({ length: plants }, (_, id) => `200 {"name":"${id}"}`)
  )
})

t.test('a client that half-closes and waits gets every response', async (t) => {
  const client = await start(t)
  client.socket.end(request('', {}, 'POST /nope HTTP/1.1').repeat(500))
  await ended(client.socket)
  t.strictSame(
    client.responses(),
    Array.from({ length: 500 }, () => '400 {"error":404,"message":"no such path"}')
  )
})

t.test('bodies longer than a piece, one after the other, by length and in chunks', async (t) => {
  const client = await start(t)
  const name = 'n'.repeat(100_000)
  const chunks = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const chunked = request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' })
  for (let id = 0; id < 10; id++) {
    const body = JSON.stringify({ id, name })
    client.socket.write(id % 2 === 0 ? request(body) : chunked + chunks(body))
  }
  client.socket.end()
  await ended(client.socket)
  t.strictSame(
    client.responses(),
    Array.from({ length: 10 }, () => `200 {"name":"${name}"}`)
  )
})

t.test('a client that does not read is not read from either, until it reads', async (t) => {
  const client = await start(t)
  const count = 1_000
  client.socket.pause()
  client.socket.write('GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(count))
  client.socket.end()
  const socket = await served(client)
  await until('the connection is stuck', () => socket.isPaused() && socket.writableLength > 0)
  t.ok(client.seen() < count)
  client.socket.resume()
  await ended(client.socket)
  t.equal(client.received().split('HTTP/1.1 200 OK').length - 1, count)
})

t.test('a connection that is reset while responses are pending leaves nothing', async (t) => {
  const service = await startService(t, { HEADERS_TIMEOUT_MS: '1' })
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  service.app.plants.create = () => gate
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  for (const rest of ['garbage\r\n\r\n', 'POST /pla']) {
    const sockets = await Promise.all(
      Array.from({ length: 20 }, async (_, id) => {
        const socket = connectTo(service.url)
        socket.on('error', () => {}).resume()
        await once(socket, 'connect')
        socket.write(request(JSON.stringify({ id, name: 'n' })) + rest)
        return socket
      })
    )
    // Their connections are refused by now, the requests before still wait. One that sent its bytes late is gone.
    const over = () => [...service.app.connections.bySocket.values()].filter(({ isOver }) => isOver).length
    const gone = () => sockets.filter(({ destroyed }) => destroyed).length
    await until('all are refused', () => over() + gone() >= 20)
    for (const socket of sockets) socket.resetAndDestroy()
    await until('all are gone', () => service.app.connections.size === 0)
  }
  letGo(created)
  t.equal(await until('their timers are gone', timers, (count) => count <= before), before)
})

t.test('nothing after a request to upgrade is carried out, and its response is the last', async (t) => {
  const client = await start(t)
  const upgrade = { connection: 'upgrade', upgrade: 'h2c' }
  const hidden = request('', { 'content-length': undefined }, 'GET /nope HTTP/1.1')
  const first = request('{"id":1,"name":"n"}', upgrade)
  // As much as the parser gets at once, so that the hidden request stands at the beginning of a piece.
  const body = `${'x'.repeat(1024 - first.length - request('').length - 2)}${hidden}`.padEnd(900, 'x')
  client.socket.end(first + request(body))
  await ended(client.socket)
  t.strictSame(client.responses(), ['200 {"name":"n"}'])
  t.match(client.received(), /connection: close/)
})

t.test('a body that a CONNECT or a reset cuts off releases its bytes', async (t) => {
  const client = await start(t)
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  client.app.plants.create = () => gate
  const unread = request('x'.repeat(600))
  client.socket.write(`${request('{"id":1,"name":"n"}')}${unread}CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n`)
  await until('the connection is over', () => [...client.app.connections.bySocket.values()][0]?.isOver)
  client.socket.resetAndDestroy()
  await until('it is gone', () => client.app.connections.size === 0)
  letGo(created)
  await until('no room is held', async () => /^plant_store_http_body_bytes 0$/m.test(await client.metrics()))
})
