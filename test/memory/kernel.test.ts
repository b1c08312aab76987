/** What the kernel holds for clients that read nothing: bounded in bytes and in time, and never that of a client that reads. */
import { execFileSync } from 'node:child_process'
import t from 'tap'
import { open, request } from '../../harness/http/raw.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { is, until } from '../../harness/time/until.ts'
import { maximumHeldBytes } from '../../src/connections/send-queues.ts'
import { patience, startMeasured } from './measured.ts'

/** Bytes of memory that the kernel holds to send from the port of a URL, in all states, as `ss` tells (`skmem`, `w`). */
function readSendMemory(url: string): number {
  const sockets = execFileSync('ss', ['-tmnaH', `sport = :${new URL(url).port}`], { encoding: 'utf8' })
  return [...sockets.matchAll(/skmem:\([^)]*,w(\d+),/g)].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
}

function isKnown(): boolean {
  try {
    execFileSync('ss', ['-V'])
    return process.platform === 'linux'
  } catch {
    return false
  }
}

const skip = isKnown() ? false : 'needs Linux and ss'
const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: test\r\n\r\n`
const name = 'n'.repeat(900_000)
const create = (id: number) => request(JSON.stringify({ id, name }))

t.test('of 200 that ask for much and read nothing some are cut off; others read on', { skip }, async (t) => {
  const service = await startMeasured(t, patience, { heapMb: 512 })
  const reader = await open(t, service.url)
  for (let count = 0; count < 200; count++) {
    const client = await open(t, service.url)
    client.socket.pause()
    client.send(get('/openapi.json').repeat(500))
  }
  await service.grows('http_connections_stalled_total', 0)
  await until(
    'the kernel holds less than the bound',
    () => service.metric('http_unread_bytes'),
    (bytes) => bytes <= maximumHeldBytes.unknown
  )
  // What the kernel adds to a packet counts in its memory. Responses may be sent between two questions.
  await until(
    'its memory has little more',
    () => readSendMemory(service.url),
    (bytes) => bytes < 2 * maximumHeldBytes.unknown
  )
  reader.send(request('{"id":1,"name":"n"}'))
  t.equal((await reader.responses())[0]?.body, '{"name":"n"}')
})

t.test('what the kernel holds for a client that reads nothing is freed in time', { skip }, async (t) => {
  const limitMs = scaled(2_000)
  const service = await startMeasured(t, { ...patience, REQUEST_TIMEOUT_MS: String(limitMs) })
  for (const isLast of [false, true]) {
    const before = await service.metric('http_connections_stalled_total')
    const client = await open(t, service.url)
    client.socket.pause()
    // The kernel accepts all of it: to the service, the response is sent.
    client.send(request(JSON.stringify({ id: +isLast, name }), isLast ? { connection: 'close' } : {}))
    await service.shows('http_requests_in_flight', 0)
    await service.shows('http_connections_stalled_total', before + 1)
    await until('nothing is held', () => readSendMemory(service.url), is(0))
  }
})

t.test('clients that ask for more than the bound, and read it, are never cut off', { skip }, async (t) => {
  const service = await startMeasured(t, patience, { heapMb: 512 })
  let bytes = 0
  for (let count = 0; count < 32; count++) {
    const client = await open(t, service.url)
    client.socket.on('data', (chunk) => {
      bytes += chunk.length
      client.send(get('/openapi.json'))
    })
    client.send(get('/openapi.json').repeat(4))
  }
  await until('they have read three times the bound', () => bytes > 3 * maximumHeldBytes.unknown)
  t.equal(await service.metric('http_connections_stalled_total'), 0)
  t.equal(await service.metric('http_connections'), 32)
})

t.test('a client that reads slowly, a little in each time-out, gets all of it', { skip }, async (t) => {
  const limitMs = scaled(2_000)
  const service = await startMeasured(t, { ...patience, REQUEST_TIMEOUT_MS: String(limitMs) })
  const client = await open(t, service.url)
  client.socket.on('data', () => {
    client.socket.pause()
    setTimeout(() => client.socket.resume(), limitMs / 10)
  })
  client.send(create(1) + create(2))
  t.strictSame(
    (await client.responses(2)).map(({ body }) => body.length),
    [name.length + 11, name.length + 11]
  )
  t.equal(await service.metric('http_connections_stalled_total'), 0)
})
