/** Clients that do not read their responses: they may take their time, but not for ever. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { open, request } from '../../harness/http/raw.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { atMost, heldEach } from './held.ts'
import { patience, startMeasured } from './measured.ts'

const limitMs = scaled(2_000)
const env = {
  HEADERS_TIMEOUT_MS: String(limitMs),
  REQUEST_TIMEOUT_MS: String(limitMs),
  WRITE_DEADLINE_MS: String(scaled(10_000)),
  SHUTDOWN_DELAY_MS: '0'
}
const service = await startMeasured(t, { ...env, SHUTDOWN_TIMEOUT_MS: String(scaled(60_000)) })
const get = 'GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n'
/** Their responses, 20 kB each, are more than the kernel takes. */
const many = get.repeat(1_000)

/** Opens a connection that asks for more than it takes. */
async function openStalled() {
  const client = await open(t, service.url)
  client.socket.pause()
  client.send(many)
  await until(
    'responses wait',
    () => service.metric('http_requests_in_flight'),
    (count) => count > 0
  )
  return client
}

t.test('a client that takes nothing for REQUEST_TIMEOUT_MS is cut off and counted', async (t) => {
  await openStalled()
  await service.shows('http_connections_stalled_total', 1)
  await service.shows('http_connections', 0)
  t.equal(await service.metric('http_requests_in_flight'), 0)
})

t.test('a connection that is idle between requests is not a stalled client', async (t) => {
  const stalled = await service.metric('http_connections_stalled_total')
  const client = await open(t, service.url)
  client.send(request('{"id":1,"name":"n"}'))
  await client.responses()
  // Idle for longer than the limit, with nothing to take.
  const began = performance.now()
  await until('the limit is over', () => performance.now() - began > 1.5 * limitMs)
  client.send(request('{"id":2,"name":"n"}'))
  t.equal((await client.responses(2)).length, 2)
  t.equal(await service.metric('http_connections_stalled_total'), stalled)
  client.socket.destroy()
})

const names: [what: string, name: string][] = [
  ['a long name', 'n'.repeat(500_000)],
  // Two bytes a character in the heap, six in the response.
  ['a wide name that is escaped', `\\u4e00${'\\u0001'.repeat(80_000)}`]
]
for (const [what, name] of names) {
  t.test(`creates with ${what} whose responses are unread hold no more than is counted`, async (t) => {
    const service = await startMeasured(t, patience, { heapMb: 1_024 })
    let counted = 0
    const count = 3
    const each = await heldEach(t, service, count, async (client, id) => {
      client.socket.pause()
      for (let index = 0; index < 60; index++) {
        client.send(request(`{"id":${1_000 * id + index},"name":"${name}"}`))
      }
      let last = -1
      const written = () => client.socket.bytesWritten - client.socket.writableLength
      await until('nothing more is read', async () => {
        const before = last
        last = written()
        await sleep(scaled(500))
        return before === last && written() === last && (await service.metric('lanes_busy')) === 0
      })
      counted = (await service.metric('queue_bytes')) + (await service.metric('http_body_bytes'))
    })
    atMost(t, each, (2.5 * counted) / count + 1_000_000, 'the connection')
  })
}

t.test('SIGTERM ends a process with a stalled client in bounded time, with exit code 0', async (t) => {
  await openStalled()
  const began = performance.now()
  service.kill('SIGTERM')
  const { code, stdout } = await service.ended
  t.equal(code, 0)
  t.match(stdout, /"msg":"shut down"/)
  const tookMs = performance.now() - began
  t.ok(tookMs < limitMs + scaled(10_000), `ended after ${Math.round(tookMs)} ms`)
})
