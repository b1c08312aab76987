/** What a body takes while it arrives, and while its create waits: what is counted of it. */
import t from 'tap'
import { type Client, open, request } from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { is, until } from '../../harness/time/until.ts'
import { maximumValues } from '../../src/body/json.ts'
import { atMost, heldEach } from './held.ts'
import { patience, startMeasured } from './measured.ts'

/** What a connection and a request may take in addition, and what the process itself takes or frees meanwhile. */
const requestBytes = 65_536
const ofRefused = 2 * requestBytes
const processBytes = 16_777_216
const chunkedHead = { 'content-length': undefined, 'transfer-encoding': 'chunked' }

t.test('a body of tiny chunks takes at most twice what is counted, and ends with 413', async (t) => {
  const limit = 1_000_000
  const service = await startMeasured(t, { ...patience, BODY_LIMIT_BYTES: String(limit) })
  const send = async (count: number) => {
    const client = await open(t, service.url)
    client.send(request('', chunkedHead))
    client.send('1\r\n \r\n'.repeat(count))
    return client
  }
  const first = await send(1_000)
  await service.grows('http_body_bytes', 0)
  first.socket.destroy()
  await service.shows('http_body_bytes', 0)

  const before = await service.held()
  const client = await send(limit)
  const counted = await service.shows('http_body_bytes', limit)
  await until('all of it has come', () => client.socket.writableLength, is(0))
  atMost(t, (await service.held()) - before, 2 * counted + processBytes, 'the body')
  client.send('1\r\n \r\n')
  const [response] = await client.responses()
  t.strictSame([response?.status, response?.headers['error-name']], [400, 'BodyTooLarge'])
  client.socket.destroy()
})

t.test('a body of announced length takes what is counted, at its first byte', async (t) => {
  const service = await startMeasured(t, patience)
  const length = 500_000
  const each = await heldEach(t, service, 20, async (client) => {
    const before = await service.metric('http_body_bytes')
    client.send(request('', { 'content-length': String(length) }))
    client.send(' ')
    await service.shows('http_body_bytes', before + length)
  })
  atMost(t, each, length + requestBytes, 'the body')
})

t.test('the body of a refused request is dropped while a response before it waits', async (t) => {
  const service = await startMeasured(t, patience)
  const holder = await lockTable(t, service.databaseUrl)
  const each = await heldEach(t, service, 6, async (client, id) => {
    const before = await service.metric('queue_rows')
    client.send(request(`{"id":${id},"name":"n"}`))
    await service.shows('queue_rows', before + 1)
    client.send(request('', { ...chunkedHead, authorization: undefined }))
    client.send('1\r\n \r\n'.repeat(100_000))
    await until('all of it has come', () => client.socket.writableLength, is(0))
  })
  // Chunk by chunk they would take 14 MB.
  atMost(t, each, 7_000_000, 'the connection')
  await holder.query('rollback')
})

/** As many values as a body may have, each of twice its bytes in memory. */
const unknown = `[${`"${'x'.repeat(400)}\\u4e00",`.repeat(maximumValues - 9)}{}]`

const refused: [what: string, body: string][] = [
  ['unknown properties, and no name', `{"id":1,"x":${unknown}}`],
  ['too many values', `{"id":1,"x":[${'{},'.repeat(300_000)}{}]}`],
  ['a long name, and an id that is none', `{"id":"x","name":"${'n'.repeat(900_000)}"}`],
  ['a long name with U+0000', `{"id":1,"name":"\\u0000${'n'.repeat(900_000)}"}`]
]
for (const [what, body] of refused) {
  t.test(`a refused create with ${what} holds nothing while a response before it waits`, async (t) => {
    const service = await startMeasured(t, patience, { heapMb: 1_024 })
    const holder = await lockTable(t, service.databaseUrl)
    const refuse = async (client: Client, id: number) => {
      const before = await service.metric('queue_rows')
      const inFlight = await service.metric('http_requests_in_flight')
      client.send(request(`{"id":${-id},"name":"n"}`))
      await service.shows('queue_rows', before + 1)
      client.send(request(body))
      await service.grows('http_requests_in_flight', inFlight + 1)
      await service.shows('http_body_bytes', 0)
    }
    const each = await heldEach(t, service, 12, refuse, { most: ofRefused })
    atMost(t, each, ofRefused, 'the connection')
    await holder.query('rollback')
  })
}

const trailers = Array.from({ length: 100 }, (_, index) => `x-${index}: ${'x'.repeat(130)}\r\n`).join('')
const withTrailers = (body: string) =>
  `${request('', chunkedHead)}${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailers}\r\n`

const waiting: [what: string, body: (id: number) => string][] = [
  ['unknown properties', (id) => `{"id":${id},"name":"n","x":${unknown}}`],
  ['an unknown text', (id) => `{"id":${id},"name":"n","x":"${'x'.repeat(900_000)}"}`],
  ['trailers', (id) => `{"id":${id},"name":"n"}`],
  ['a wide name that is escaped', (id) => `{"id":${id},"name":"\\u4e00${'\\u0001'.repeat(150_000)}"}`],
  ['a long name', (id) => `{"id":${id},"name":"${'n'.repeat(900_000)}"}`]
]
for (const [what, body] of waiting) {
  t.test(`creates that wait with ${what} hold what is counted`, async (t) => {
    // Room for what the first code that this was tried on held.
    const service = await startMeasured(t, patience, { heapMb: 1_024 })
    const holder = await lockTable(t, service.databaseUrl)
    let counted = 0
    const each = await heldEach(t, service, 12, async (client, id) => {
      const before = await service.metric('queue_rows')
      client.send(what === 'trailers' ? withTrailers(body(id)) : request(body(id)))
      await service.shows('queue_rows', before + 1)
      counted = (await service.metric('queue_bytes')) / (before + 1)
    })
    // In a lane a text is also in a statement, and on its way to the database.
    atMost(t, each, 3 * counted + requestBytes, `a create of ${Math.round(counted)} bytes`)
    await holder.query('rollback')
  })
}
