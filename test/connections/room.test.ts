/** Room for new connections: who makes it, and that those who have no token keep nobody out. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type Client, open, request } from '../../harness/http/raw.ts'
import { shows } from '../../harness/service/metrics.ts'
import { startService } from '../../harness/service/service.ts'
import { until } from '../../harness/time/until.ts'
import type { Created } from '../../src/plants/repository.ts'

const limit = 4
const probe = request('', { 'content-length': undefined, authorization: undefined }, 'GET /readyz HTTP/1.1')
const refused = request('{"id":1,"name":"n"}', { authorization: undefined, 'content-length': '9999' })
let lastId = 0
const create = () => request(JSON.stringify({ id: ++lastId, name: 'n' }))

const start = (t: Test) => startService(t, { MAX_CONNECTIONS: String(limit) })
type Service = Awaited<ReturnType<typeof start>>

/** Opens a connection that sends this, and waits until the service has read it, and for as many responses. */
async function connect(t: Test, { app, url }: Service, bytes: string, responses = 1) {
  const accepted = once(app.server, 'connection') as Promise<[Socket]>
  const client = await open(t, url)
  const [served] = await accepted
  if (bytes !== '') client.send(bytes)
  await until('all is read', () => served.bytesRead === bytes.length)
  if (responses > 0) await client.responses(responses)
  return client
}

const isOpen = ({ socket }: Client) => !socket.closed && !socket.readableEnded
const closed = (client: Client) => until('it is closed', () => !isOpen(client))

/** What a client without a valid token can do to stay: each of these makes room, before or after those that are idle. */
const strangers: [what: string, bytes: string, responses: number, order: 'before' | 'after'][] = [
  ['has asked for a probe', probe, 1, 'before'],
  ['has sent an empty line after its response', `${probe}\r\n`, 1, 'before'],
  ['has sent half a request after garbage', 'G\x01\r\n\r\n', 1, 'before'],
  ['has sent nothing', '', 0, 'after'],
  ['has begun a header', 'GET /livez HTTP/1.1\r\nhost', 0, 'after'],
  ['has begun another header', `${probe}G`, 1, 'after'],
  ['has not sent the body of a request that was refused', refused, 1, 'after']
]

for (const [what, bytes, responses, order] of strangers) {
  t.test(`an old connection that ${what} makes room, ${order} younger ones that are idle`, async (t) => {
    const service = await start(t)
    const trusted = [await connect(t, service, create())]
    const old = await connect(t, service, bytes, responses)
    const idle = [await connect(t, service, probe), await connect(t, service, probe)]
    const inOrder = order === 'before' ? [old, ...idle] : [...idle, old]
    for (let left = inOrder; left.length > 0; left = left.slice(1)) {
      trusted.push(await connect(t, service, create()))
      await closed(left[0] as Client)
      t.ok([...trusted, ...left.slice(1)].every(isOpen))
    }
    await shows(t, service, 'http_connections', limit)
  })
}

t.test('trusted idle connections make room when no other is left, the longest idle first', async (t) => {
  const service = await start(t)
  const clients: Client[] = []
  while (clients.length < limit) clients.push(await connect(t, service, create()))
  const [used, idle] = clients as [Client, Client]
  used.send(create())
  await used.responses(2)
  const newest = await connect(t, service, probe)
  await closed(idle)
  t.ok([...clients.filter((client) => client !== idle), newest].every(isOpen))
  t.match(await service.metrics(), /http_connections_evicted_total\{token="valid"\} 1\n/)
})

t.test('a trusted connection that is held back makes no room until it is let go', async (t) => {
  const service = await start(t)
  const clients: Client[] = []
  while (clients.length < limit) clients.push(await connect(t, service, create()))
  const [held, idle] = clients as [Client, Client]
  const [connection] = service.app.connections.all()
  t.ok(connection?.pauseReading())
  const newest = await connect(t, service, create())
  await closed(idle)
  t.ok(isOpen(held))
  connection?.resumeReading()
  for (const client of [...clients.slice(2), newest]) {
    client.send(create())
    await client.responses(2)
  }
  await connect(t, service, probe)
  await closed(held)
})

t.test('where all are trusted and busy, others are refused, but for their probes', async (t) => {
  const service = await start(t)
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  service.app.plants.create = () => gate
  const busy: Client[] = []
  while (busy.length < limit) busy.push(await connect(t, service, create(), 0))
  const asking = await connect(t, service, probe)
  const bodies = (await asking.responses()).map(({ body }) => body)
  t.strictSame(bodies, ['{"status":"ready"}'])
  const creating = await connect(t, service, create())
  t.match((await creating.responses())[0], {
    headers: { 'error-name': 'Overloaded', connection: 'close' },
    body: '{"error":503,"message":"too many connections; this request stored nothing; retry later"}'
  })
  letGo({ stored: 'created', rows: 1, release() {} })
  for (const client of busy) t.equal((await client.responses())[0]?.body, '{"name":"n"}')
})

t.test('silent connections beyond all room keep out no probe', async (t) => {
  const service = await start(t)
  const { promise: gate, resolve: letGo } = Promise.withResolvers<Created>()
  service.app.plants.create = () => gate
  for (let count = 0; count < limit; count++) await connect(t, service, create(), 0)
  const silent = await Promise.all(Array.from({ length: 1_010 }, () => open(t, service.url)))
  await until('all room is taken', () => service.app.connections.size === limit + 1_000)
  const asking = await open(t, service.url)
  asking.send(probe)
  t.equal((await asking.responses())[0]?.body, '{"status":"ready"}')
  await until('the oldest have made room', () => silent.filter((client) => !isOpen(client)).length >= 10)
  t.ok(service.app.connections.size <= limit + 1_000)
  letGo({ stored: 'created', rows: 1, release() {} })
})

t.test('crowds without a token evict no trusted connection, and every new client is served', async (t) => {
  const service = await start(t)
  const pool = await connect(t, service, create())
  for (let round = 0; round < 20; round++) {
    const crowd = await Promise.all(Array.from({ length: 3 * limit }, () => open(t, service.url)))
    const newcomer = await open(t, service.url)
    newcomer.send(create())
    t.equal((await newcomer.responses())[0]?.body, '{"name":"n"}')
    newcomer.socket.destroy()
    for (const { socket } of crowd) socket.destroy()
  }
  pool.send(create())
  t.equal((await pool.responses(2))[1]?.body, '{"name":"n"}')
})
