/** What an idle connection keeps of the requests that it had: nothing. */
import t from 'tap'
import { type Client, open, request } from '../../harness/http/raw.ts'
import { maximumValues } from '../../src/body/json.ts'
import { atMost, createSmall, heldEach } from './held.ts'
import { patience, startMeasured } from './measured.ts'

const callers = { tester: 'tester-secret-0123456789', talker: `talker-secret-${'x'.repeat(2_000)}` }
const service = await startMeasured(t, {
  ...patience,
  AUTH_TOKENS: `tester:${callers.tester},talker:${callers.talker}`
})
/** Of a connection; what Node itself needs for one is about 5 kB. */
const idleBytes = 16_384
const mostFields = 100

/** Writes a GET with this many header fields in all, each of the others with a value of `length` bytes. */
function get(count: number, length = 0) {
  const others = Array.from({ length: count - 1 }, (_, index) => `x-${index}: ${'v'.repeat(length)}\r\n`)
  return `GET /livez HTTP/1.1\r\nhost: test\r\n${others.join('')}\r\n`
}

/** Sends a request, and checks the status of its response. */
async function send(client: Client, bytes: string, status = 200) {
  client.send(bytes)
  const [response] = await client.responses()
  if (response?.status !== status) throw new Error(`no ${status}: ${JSON.stringify(response)}`)
}

const chunked = (body: string) =>
  request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' }) +
  `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

t.test('more than 100 header fields are refused with 431', async (t) => {
  const client = await open(t, service.url)
  client.send(get(mostFields) + get(mostFields + 1))
  const responses = await client.responses(2)
  t.strictSame(
    responses.map(({ status, headers, body }) => [status, headers['error-name'], headers.connection, body]),
    [
      [200, undefined, 'keep-alive', '{"status":"alive"}'],
      [
        400,
        'HeadersTooLarge',
        'keep-alive',
        '{"error":431,"message":"the request has more than 100 header fields"}'
      ]
    ]
  )
  client.socket.destroy()
})

t.test('2,900 short header fields leave nothing on their connection', async (t) => {
  const each = await heldEach(
    t,
    service,
    20,
    async (client) => {
      client.send(
        get(2_900)
          .slice(0, 16_000)
          .replace(/\r\n[^\r]*$/, '\r\n\r\n')
      )
      await client.responses()
    },
    { most: idleBytes }
  )
  atMost(t, each, idleBytes, 'the connection')
})

t.test('100 long header fields leave nothing on their connection', async (t) => {
  const each = await heldEach(t, service, 50, (client) => send(client, get(mostFields, 100)), {
    most: idleBytes
  })
  atMost(t, each, idleBytes, 'an idle connection')
})

t.test('the trailers of a body leave nothing on their connection', async (t) => {
  const trailers = Array.from({ length: 1_500 }, (_, index) => `x-${index}: \r\n`).join('')
  const each = await heldEach(
    t,
    service,
    20,
    async (client, id) => {
      client.send(chunked(`{"id":${id},"name":"n"}`).replace(/\r\n$/, `${trailers}\r\n`))
      await client.responses()
    },
    { most: idleBytes }
  )
  atMost(t, each, idleBytes, 'an idle connection')
})

t.test('a chunked body of nearly 1 MB leaves nothing on its connection', async (t) => {
  const each = await heldEach(
    t,
    service,
    10,
    (client, id) => send(client, chunked(`{"id":${id},"name":"${'n'.repeat(1_000_000)}"}`)),
    { most: 2 * idleBytes }
  )
  atMost(t, each, 2 * idleBytes, 'an idle connection')
})

t.test('the unknown properties of a body leave nothing on its connection', async (t) => {
  const unknown = `[${`"${'x'.repeat(400)}\\u4e00",`.repeat(maximumValues - 9)}{}]`
  for (const write of [chunked, request]) {
    const each = await heldEach(
      t,
      service,
      4,
      async (client, id) => {
        await send(client, write(`{"id":${id},"name":"n","x":${unknown}}`))
        // The process, not the connection, keeps something of a large body until the next request.
        await createSmall(t, service, -id)
      },
      { most: idleBytes }
    )
    atMost(t, each, idleBytes, 'an idle connection')
  }
})

t.test('a connection that opens amid requests of others keeps none of their memory', async (t) => {
  const talker = await open(t, service.url)
  const talk = (id: number) =>
    request(`{"id":${id},"name":"n"}`, { authorization: `Bearer ${callers.talker}` })
  let sent = 0
  // Longer than what it shares is the talker's token, 40 times: each connection gets another piece of memory.
  const each = await heldEach(
    t,
    service,
    40,
    async (client, id) => {
      talker.send(Array.from({ length: 40 }, () => talk(-++sent)).join(''))
      await talker.responses(sent)
      await send(client, request(`{"id":${id},"name":"n"}`))
    },
    { most: 2 * idleBytes }
  )
  // The requests of the talker leave something of their own.
  atMost(t, each, 2 * idleBytes, 'an idle connection')
})
