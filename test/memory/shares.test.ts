/** Shares: what one caller holds leaves as much for the others. */
import t, { type Test } from 'tap'
import {
  type Client,
  exchange,
  open,
  parseResponses,
  type RawResponse,
  request
} from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { type Measured, startMeasured } from './measured.ts'

const mebibyte = 2 ** 20
const secrets = {
  alice: 'alice-secret-0123456789',
  bob: 'bob-secret-0123456789',
  carol: 'carol-secret-012345'
}
type Caller = keyof typeof secrets

const AUTH_TOKENS = Object.entries(secrets)
  .map(([caller, secret]) => `${caller}:${secret}`)
  .join(',')
const start = (t: Test, env: Record<string, string>) => startMeasured(t, { AUTH_TOKENS, ...env })

let lastId = 0
const plant = (name = 'n') => `{"id":${++lastId},"name":"${name}"}`
const by = (caller: Caller) => ({ authorization: `Bearer ${secrets[caller]}` })
const announce = (caller: Caller, bytes: number, fields: Record<string, string> = {}) =>
  request('', { ...by(caller), 'content-length': String(bytes), ...fields })

/** Sends the same from several connections of a caller, each once the one before is taken or refused. */
async function sendAll(t: Test, service: Measured, count: number, bytes: () => string, gauge: string) {
  const clients: Client[] = []
  let refused = 0
  while (clients.length < count) {
    const client = await open(t, service.url)
    clients.push(client)
    const before = await service.metric(gauge)
    client.send(bytes())
    let response: RawResponse | undefined
    client.responses().then(
      ([first]) => (response = first),
      () => {}
    )
    await until('it is taken or refused', async () => response || (await service.metric(gauge)) > before)
    if (response === undefined) continue
    if (response.headers['error-name'] !== 'Overloaded' || response.headers['retry-after'] !== '1')
      throw new Error(JSON.stringify(response))
    refused++
  }
  return { clients, refused }
}

t.test('64 requests of one caller that announce 1 MiB and send nothing keep nobody out', async (t) => {
  for (const fields of [{}, { expect: '100-continue' }]) {
    const service = await start(t, {})
    for (let count = 0; count < 64; count++) {
      const client = await open(t, service.url)
      client.send(announce('alice', mebibyte, fields))
    }
    await service.shows('http_requests_in_flight', 64)
    t.equal(await service.metric('http_body_bytes'), 0)
    const client = await open(t, service.url)
    client.send(request(plant(), by('bob')))
    t.equal((await client.responses())[0]?.body, '{"name":"n"}')
  }
})

t.test('a client that announces a body and sends none gets 408 after HEADERS_TIMEOUT_MS', async (t) => {
  const service = await start(t, {
    HEADERS_TIMEOUT_MS: String(scaled(1_000)),
    REQUEST_TIMEOUT_MS: String(scaled(20_000))
  })
  for (const fields of [{}, { expect: '100-continue' }]) {
    const began = performance.now()
    const bytes = await exchange(service.url, [announce('alice', mebibyte, fields)])
    const final = bytes.subarray(bytes.indexOf('HTTP/1.1 400'))
    t.match(parseResponses(final), [
      { status: 400, headers: { 'error-name': 'RequestTimeout', connection: 'close' } }
    ])
    const tookMs = performance.now() - began
    t.ok(tookMs > scaled(900) && tookMs < scaled(10_000), `after ${Math.round(tookMs)} ms`)
  }
})

t.test('one caller takes half of the memory for arriving bodies, a second half of the rest', async (t) => {
  const service = await start(t, { BODY_MEMORY_BYTES: String(8 * mebibyte) })
  const begin = (caller: Caller) => () => `${announce(caller, mebibyte)} `
  const alice = await sendAll(t, service, 8, begin('alice'), 'http_body_bytes')
  t.equal(alice.refused, 4)
  t.equal(await service.metric('http_body_bytes'), 4 * mebibyte)
  const bob = await sendAll(t, service, 4, begin('bob'), 'http_body_bytes')
  t.equal(bob.refused, 2)
  const carol = await open(t, service.url)
  carol.send(request(plant(), by('carol')))
  t.equal((await carol.responses())[0]?.body, '{"name":"n"}')
})

t.test('one caller alone takes half of the rows of the queue, a second half of what is left', async (t) => {
  const service = await start(t, { WRITE_QUEUE_ROWS: '8' })
  const holder = await lockTable(t, service.databaseUrl)
  const create = (caller: Caller) => () => request(plant(), by(caller))
  const alice = await sendAll(t, service, 8, create('alice'), 'queue_rows')
  t.equal(alice.refused, 4)
  const bob = await sendAll(t, service, 4, create('bob'), 'queue_rows')
  t.equal(bob.refused, 2)
  const carol = await sendAll(t, service, 1, create('carol'), 'queue_rows')
  t.equal(carol.refused, 0)
  await holder.query('rollback')
  const responses = await Promise.all(
    [alice, bob, carol].flatMap(({ clients }) => clients.map((client) => client.responses()))
  )
  t.equal(responses.filter(([response]) => response?.status === 200).length, 4 + 2 + 1)
})

t.test('one caller alone takes half of the bytes of the queue', async (t) => {
  const bytes = 100_000
  const service = await start(t, {
    BODY_LIMIT_BYTES: String(2 * bytes),
    WRITE_QUEUE_BYTES: String(8 * bytes)
  })
  const holder = await lockTable(t, service.databaseUrl)
  // The queue counts 64 bytes for a row besides its texts.
  const create = (caller: Caller) => () => request(plant('n'.repeat(bytes - 64)), by(caller))
  const alice = await sendAll(t, service, 8, create('alice'), 'queue_bytes')
  t.equal(alice.refused, 4)
  const bob = await sendAll(t, service, 1, create('bob'), 'queue_bytes')
  t.equal(bob.refused, 0)
  await holder.query('rollback')
  t.equal((await bob.clients[0]?.responses())?.[0]?.status, 200)
})
