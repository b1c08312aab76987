/** Requests that have arrived together get what each of them would get alone. */
import t from 'tap'
import { open, request } from '../../harness/http/raw.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { startMeasured } from './measured.ts'

t.test('204 pipelined requests, read after HEADERS_TIMEOUT_MS, all get their response', async (t) => {
  const limitMs = scaled(1_500)
  const service = await startMeasured(t, { HEADERS_TIMEOUT_MS: String(limitMs) })
  const client = await open(t, service.url)
  client.socket.pause()
  // Some 20 kB each: the kernel takes a part of them.
  const count = 204
  client.send('GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n'.repeat(count))
  await service.grows('http_requests_in_flight', 0)
  const began = performance.now()
  await until('the time for a header is over', () => performance.now() - began > limitMs + scaled(1_000))
  client.socket.resume()
  const responses = await client.responses(count)
  t.equal(responses.length, count)
  t.strictSame([...new Set(responses.map(({ status }) => status))], [200])
})

t.test('four pipelined creates under a limit of three a second: one is refused', async (t) => {
  const service = await startMeasured(t, { RATE_LIMIT: '3' })
  const client = await open(t, service.url)
  client.send([1, 2, 3, 4].map((id) => request(`{"id":${id},"name":"n"}`)).join(''))
  const responses = await client.responses(4)
  t.strictSame(
    responses.map(({ status, headers }) => [status, headers['error-name']]),
    [
      [200, undefined],
      [200, undefined],
      [200, undefined],
      [400, 'RateLimited']
    ]
  )
})

t.test('a name of 35 MB of emoji is stored', async (t) => {
  const service = await startMeasured(
    t,
    {
      BODY_LIMIT_BYTES: String(2 ** 26),
      BODY_MEMORY_BYTES: String(2 ** 28),
      WRITE_QUEUE_BYTES: String(2 ** 28)
    },
    { heapMb: 1_024 }
  )
  const name = '🪴'.repeat(35_000_000 / 4)
  const response = await fetch(`${service.url}/plants`, {
    method: 'POST',
    headers: { authorization: 'Bearer tester-secret-0123456789', 'content-type': 'application/json' },
    body: JSON.stringify({ id: 1, name })
  })
  const body = await response.text()
  t.equal(response.status, 200, body.slice(0, 60))
  t.ok(body === JSON.stringify({ name }), 'the response has the name')
})
