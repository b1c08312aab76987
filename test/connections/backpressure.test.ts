/** Backpressure: clients that are refused and come back at once, more of them than one turn of the event loop serves. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { connectTo, parseResponses, request } from '../../harness/http/raw.ts'
import { shows } from '../../harness/service/metrics.ts'
import { startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'

const clients = 200

const service = await startService(t)
/** How many requests came in each turn, and the connections that were not read from for a while. */
const turns: number[] = []
const held = new Set<Socket>()
let ofTurn = 0
service.app.server.on('connection', (socket: Socket) => socket.on('pause', () => held.add(socket)))
service.app.server.on('request', () => {
  if (ofTurn++ > 0) return
  setImmediate(() => {
    turns.push(ofTurn)
    ofTurn = 0
  })
})
t.beforeEach(() => {
  turns.length = 0
  held.clear()
})

const body = '{"id":1,"name":"n"}'
const refused = (head = {}) => request(body, { authorization: 'Bearer somebody-else-0123456789', ...head })
const unauthorized = { status: 400, body: '{"error":401,"message":"the bearer token is not valid"}' }

interface Client {
  socket: Socket
  received: string
}

const responsesOf = ({ received }: Client) => received.split('HTTP/1.1 ').length - 1

/** Sends the same from many connections at once, and again after each response, until each has this many responses. */
async function hammer(t: Test, sent: string, total: number): Promise<Client[]> {
  const all = Array.from({ length: clients }, () => {
    const client = { socket: connectTo(service.url), received: '' }
    client.socket.setEncoding('latin1').on('data', (text) => {
      client.received += text
      if (responsesOf(client) < total) client.socket.write(sent)
    })
    t.teardown(() => client.socket.destroy())
    return client
  })
  await Promise.all(all.map(({ socket }) => once(socket, 'connect')))
  await shows(t, service, 'http_connections', clients)
  for (const { socket } of all) socket.write(sent)
  return all
}

/** Returns all their responses, taken apart. */
const read = (all: Client[]) => all.flatMap(({ received }) => parseResponses(Buffer.from(received, 'latin1')))

/** Waits until each has this many responses, and no connection is held any more. */
async function haveResponses(t: Test, all: Client[], total: number, expected = unauthorized) {
  await until(
    `each has ${total} responses`,
    () => all.filter((client) => responsesOf(client) === total).length,
    (count) => count === all.length
  )
  t.strictSame(
    read(all).map(({ status, body }) => ({ status, body })),
    Array(all.length * total).fill(expected)
  )
  await shows(t, service, 'http_connections_held', 0)
}

t.test('the first responses come at once, later ones a few in each turn', async (t) => {
  await haveResponses(t, await hammer(t, refused(), 10), 10)
  t.equal(turns[0], clients)
  const most = Math.max(...turns.slice(1))
  t.ok(most <= 128, `${most} in a turn`)
})

t.test('clients whose bodies are refused are paused, too', async (t) => {
  await haveResponses(t, await hammer(t, request('{"id":1}'), 2), 2, {
    status: 400,
    body: '{"error":422,"message":"name is required"}'
  })
  t.ok(held.size >= clients / 2)
})

t.test('clients of what is no operation are paused, too, although they succeed', async (t) => {
  const probe = request('', { 'content-length': undefined }, 'GET /livez HTTP/1.1')
  await haveResponses(t, await hammer(t, probe, 10), 10, { status: 200, body: '{"status":"alive"}' })
  t.equal(turns[0], clients, 'a first request never waits')
  t.ok(held.size >= clients / 2)
})

t.test('a body that comes later is read, and the connection stays open', async (t) => {
  const all = await hammer(t, refused().slice(0, -body.length), 1)
  await haveResponses(t, all, 1)
  t.equal(held.size, 0, 'what is being sent is read')
  for (const { socket } of all) socket.write(body)
  await until('a connection is held', () => held.size > 0)
  t.ok(held.size >= clients / 2)
  for (const { socket } of all) socket.write(refused())
  await haveResponses(t, all, 2)
})

t.test('requests that came together get their responses together', async (t) => {
  await haveResponses(t, await hammer(t, refused() + refused() + refused(), 1), 3)
})

t.test('a request that has begun to arrive is read to its end', async (t) => {
  const all = await hammer(t, refused() + refused().slice(0, -body.length), 1)
  await haveResponses(t, all, 2)
  t.equal(held.size, 0)
})

t.test('the last response of a connection closes it', async (t) => {
  const all = await hammer(t, refused({ connection: 'close' }), 1)
  await Promise.all(all.map(({ socket }) => once(socket, 'close')))
  await haveResponses(t, all, 1)
  t.equal(held.size, 0)
})

t.test('bytes after it that are not a request close it, too', async (t) => {
  const all = await hammer(t, `${refused()}?\r\n\r\n`, 2)
  await Promise.all(all.map(({ socket }) => once(socket, 'close')))
  const errors = read(all).map(({ body }) => JSON.parse(body).error)
  t.strictSame(
    errors,
    all.flatMap(() => [401, 400])
  )
  t.equal(held.size, 0)
})

t.test('before the service closes, every client is read from again', async (t) => {
  const all = await hammer(t, refused(), 1)
  await until('a connection is held', () => [...held].some((socket) => socket.isPaused()))
  service.app.connections.backpressure.resumeAll()
  t.notOk([...held].some((socket) => socket.isPaused()))
  await haveResponses(t, all, 1)
})

t.test('clients that leave while they are paused are forgotten', async (t) => {
  const all = await hammer(t, refused(), 1)
  for (const { socket } of all) socket.once('data', () => socket.destroy())
  await shows(t, service, 'http_connections', 0)
  await shows(t, service, 'http_connections_held', 0)
  t.ok(held.size > 0)
})

t.test('creates that succeed pause no client', async (t) => {
  const responses = await Promise.all(
    Array.from({ length: clients }, (_, id) => service.post({ id, name: 'n' }))
  )
  t.equal(responses.filter(({ status }) => status === 200).length, clients)
  t.equal(held.size, 0)
})
