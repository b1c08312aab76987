/**
 * Promise 10: more than can be written in time is refused at once, and nothing of it is stored; what was admitted is stored.
 * One caller cannot take all the room.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { addTrigger, lockTable } from '../support/postgres/database.ts'
import { failure, maskFields, type Reply, success } from '../support/responses.ts'
import { headers, post, type Service, startService, token } from '../support/service.ts'
import { type Client, connectTo, open, request } from '../support/sockets.ts'
import { is, until } from '../support/until.ts'

t.jobs = 3

const other = 'other-secret-0123456789'
const by = (secret: string) => ({ headers: { ...headers, authorization: `Bearer ${secret}` } })
const start = (t: Test, env: Record<string, string>) =>
  startService(t, { AUTH_TOKENS: `tester:${token},other:${other}`, ...env })
const overloaded = failure('Overloaded')
let lastId = 0

/** A create on its way. */
interface Create {
  id: number
  done: Promise<Reply>
  reply?: Reply
}

function send(service: Service, name: string, secret = token): Create {
  const id = ++lastId
  const create: Create = { id, done: post(`${service.url}/plants`, { id, name }, by(secret)) }
  create.done.then(
    (reply) => {
      create.reply = reply
    },
    () => {}
  )
  return create
}

const isRefused = ({ reply }: Create) => reply?.headers['error-name'] === 'Overloaded'
const isStored = ({ reply }: Create) => reply?.status === 200
const idsOf = (creates: { id: number }[]) => creates.map(({ id }) => id)
const storedIds = async (service: Service) =>
  (await service.rows('select id::int from plants order by id')).map(({ id }) => id)

const floods: [title: string, env: Record<string, string>, name: string][] = [
  ['WRITE_QUEUE_ROWS', { WRITE_QUEUE_ROWS: '8' }, 'n'],
  // 4 KiB a row: plants of 100 kB take the bytes of 200 rows before there are as many.
  [
    'the bytes of WRITE_QUEUE_ROWS',
    { WRITE_QUEUE_ROWS: '195', BODY_LIMIT_BYTES: '400000' },
    'n'.repeat(100_000)
  ]
]

for (const [limit, env, name] of floods) {
  t.test(
    `creates beyond ${limit} are refused at once, and another caller's is admitted`,
    async (t) => {
      const service = await start(t, env)
      const waiting = async () => (await service.metrics()).value('plant_store_queue_rows')
      const lock = await lockTable(t, service.databaseUrl)
      const flood = Array.from({ length: 24 }, () => send(service, name))
      const refused = () => flood.filter(isRefused)
      const admitted = async () => (await waiting()) + refused().length === flood.length
      await until('each is refused or waits', admitted)
      t.ok(refused().length >= 16, 'no more than 8 find room')
      for (const { reply } of refused()) t.strictSame(reply, overloaded)
      const one = send(service, name, other)
      const isDecided = async () => isRefused(one) || (await admitted()) === false
      await until("the other caller's is refused or waits", isDecided)
      await lock.query('rollback')
      t.strictSame(await one.done, success({ name }), 'the other caller has room')
      await Promise.all(flood.map(({ done }) => done))
      const stored = flood.filter((create) => !isRefused(create))
      for (const { reply } of stored) t.strictSame(reply, success({ name }))
      t.strictSame(
        await storedIds(service),
        idsOf([...stored, one]),
        'what was admitted, and nothing else'
      )
      t.strictSame(await send(service, name).done, success({ name }), 'there is room again')
    }
  )
}

t.test(
  'creates that a slow table could not take by the deadline are refused at once',
  async (t) => {
    const service = await start(t, {
      WRITE_DEADLINE_MS: '4000',
      WRITE_LANES: '1',
      WRITE_QUEUE_ROWS: '100000'
    })
    // Ten of them fill a batch.
    const long = 'n'.repeat(100_000)
    // Some 20 rows a second: the deadline is worth 80.
    await addTrigger(t, service.databaseUrl, 'perform pg_sleep(0.05);')
    const all: Create[] = []
    // The first flood may be admitted whole: the service learns from it how slow the table is.
    for (let floods = 0; floods < 5 && !all.some(isRefused); floods++) {
      const flood = Array.from({ length: 300 }, () => send(service, long))
      all.push(...flood)
      await Promise.all(flood.map(({ done }) => done))
    }
    t.strictSame(all.find(isRefused)?.reply, overloaded)
    const none = all.filter(({ reply }) => reply?.headers['write-outcome'] === 'none')
    const stored = await service.rows('select from plants where id = any($1)', [idsOf(none)])
    t.equal(stored.length, 0, 'nothing of the refused is stored')
    t.ok(all.some(isStored), 'others are')
  }
)

const mebibyte = 2 ** 20
/** Writes spaces as chunks (RFC 9112, section 7.1) that are smaller than what Node reads at once. */
const smallChunk = `2000\r\n${' '.repeat(0x2000)}\r\n`
const framings = {
  'with a length': {
    spaces: Buffer.alloc(4 * mebibyte - 100, ' '),
    begin: (plant: string) =>
      request(plant, { 'content-length': String(plant.length + 4 * mebibyte - 99) }),
    end: '}'
  },
  'in chunks': {
    spaces: Buffer.from(smallChunk.repeat(500)),
    begin: (plant: string) =>
      request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' }) +
      `${plant.length.toString(16)}\r\n${plant}\r\n`,
    end: '1\r\n}\r\n0\r\n\r\n'
  }
}

for (const [framing, { spaces, begin: head, end }] of Object.entries(framings))
  t.test(
    `bodies ${framing} that one caller does not finish leave room for another caller`,
    async (t) => {
      const service = await start(t, { BODY_LIMIT_BYTES: String(4 * mebibyte) })
      /** Sends all of a long body but its last byte; 128 MiB of them together are more than any default has room for. */
      const begin = async () => {
        const id = ++lastId
        const client = await open(t, service.url)
        client.send(head(`{"id":${id},"name":"n"`))
        const isWritten = new Promise<void>((resolve) =>
          client.socket.write(spaces, () => resolve())
        )
        const first = client.responses().then(([response]) => response)
        first.catch(() => {}) // who awaits it reports it
        // The kernel takes what a refused body has left.
        await Promise.race([isWritten, first])
        return { id, client, first }
      }
      const bodies = await Promise.all(Array.from({ length: 32 }, begin))
      // Longer than what rounding leaves of a budget that is used up.
      const name = 'n'.repeat(mebibyte)
      const theirs = send(service, name, other)
      t.strictSame(await theirs.done, success({ name }), 'the other caller has room')
      for (const { client } of bodies) client.send(end)
      const responses = await Promise.all(bodies.map(({ first }) => first))
      const refused = responses.filter((response) => response?.status !== 200)
      const message =
        'too many request bodies are being received; this request stored nothing; retry later'
      for (const response of refused)
        t.strictSame(toReply(response), failure('Overloaded', { message }))
      t.ok(refused.length > 0, 'not all bodies find room')
      const finished = bodies.filter((_, index) => responses[index]?.status === 200)
      t.strictSame(
        await storedIds(service),
        [...idsOf(finished), theirs.id].toSorted((one, two) => one - two)
      )
    }
  )

const toReply = (
  response: Awaited<ReturnType<Client['responses']>>[number] | undefined
): Reply => ({
  status: response?.status ?? 0,
  headers: maskFields(response?.headers ?? {}),
  body: response?.body ?? ''
})

/** Whole creates of nearly the largest body, by how they are framed. */
const largest: Record<string, (body: string) => string> = {
  'with a length': (body) => request(body),
  'in chunks of 64 KiB': (body) => chunkedRequest(body, 2 ** 16),
  'in chunks of 1 KiB': (body) => chunkedRequest(body, 2 ** 10)
}
const chunkedHead = request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' })
function chunkedRequest(body: string, length: number) {
  const chunks = Array.from({ length: Math.ceil(body.length / length) }, (_, index) => {
    const text = body.slice(index * length, (index + 1) * length)
    return `${text.length.toString(16)}\r\n${text}\r\n`
  })
  return `${chunkedHead}${chunks.join('')}0\r\n\r\n`
}

for (const limit of [1, 24, 32, 64].map((count) => count * mebibyte))
  t.test(`a body of nearly ${limit} bytes, the largest one, is admitted alone`, async (t) => {
    const service = await start(t, { BODY_LIMIT_BYTES: String(limit) })
    for (const [framing, make] of Object.entries(largest)) {
      const client = await open(t, service.url)
      client.send(make(`{"id":${++lastId},"name":"n"}`.padEnd(0.999 * limit)))
      const [response] = await client.responses()
      t.strictSame(toReply(response), success({ name: 'n' }), framing)
      client.socket.destroy()
    }
  })

t.test('a chunk takes more of the room than its bytes', async (t) => {
  const service = await start(t, {})
  // 12 times 20 kB would not be worth a word. As pieces in memory, they are 60 MB.
  const clients = await Promise.all(
    Array.from({ length: 12 }, async () => {
      const client = await open(t, service.url)
      client.send(`${chunkedHead}${'1\r\n \r\n'.repeat(20_000)}`)
      const first = client.responses().then(([response]) => toReply(response))
      first.catch(() => {}) // who awaits it reports it
      return { client, first }
    })
  )
  await Promise.race(clients.map(({ first }) => first))
  for (const { client } of clients) {
    const plant = `{"id":${++lastId},"name":"n"}`
    client.send(`${plant.length.toString(16)}\r\n${plant}\r\n0\r\n\r\n`)
  }
  const replies = await Promise.all(clients.map(({ first }) => first))
  const names = replies.map(({ status, headers }) => headers['error-name'] ?? status)
  t.ok(names.includes('Overloaded') && names.includes(200), names.join())
})

t.test('bodies that are refused before their end leave their room', async (t) => {
  const service = await start(t, { BODY_LIMIT_BYTES: String(4 * mebibyte) })
  const { spaces, begin } = framings['in chunks']
  for (const [name, rest] of Object.entries({ MalformedRequest: 'z\r\n', BodyTooLarge: spaces }))
    for (let times = 0; times < 16; times++) {
      const client = await open(t, service.url)
      client.send(begin('{'))
      client.socket.write(spaces)
      client.socket.write(rest)
      const [response] = await client.responses()
      t.equal(response?.headers['error-name'], name)
    }
  const name = 'n'.repeat(mebibyte)
  t.strictSame(await send(service, name).done, success({ name }))
})

t.test('connections beyond MAX_CONNECTIONS', async (t) => {
  const limit = 4
  const service = await start(t, { MAX_CONNECTIONS: String(limit) })
  /** Creates on a connection of its own, which stays open. */
  const create = async () => {
    const id = ++lastId
    const client = await open(t, service.url)
    client.send(request(`{"id":${id},"name":"n"}`))
    const reply = client.responses().then(([response]) => toReply(response))
    reply.catch(() => {}) // who awaits it reports it
    return { id, client, reply }
  }

  await t.test('where all are open, a further one is closed and counted', async (t) => {
    const before = await storedIds(service)
    const lock = await lockTable(t, service.databaseUrl)
    const waiting = async () => (await service.metrics()).value('plant_store_queue_rows')
    const busy: Awaited<ReturnType<typeof create>>[] = []
    while (busy.length < limit) {
      busy.push(await create())
      await until('it is in flight', waiting, is(busy.length))
    }
    const further = connectTo(service.url)
    await once(
      further.on('error', () => {}),
      'close'
    )
    t.equal((await service.metrics()).value('plant_store_http_connections_dropped_total'), 1)
    await lock.query('rollback')
    for (const { reply } of busy) t.strictSame(await reply, success({ name: 'n' }))
    t.strictSame(await storedIds(service), [...before, ...idsOf(busy)])
    busy[0]?.client.socket.destroy()
    const open = async () => (await service.metrics()).value('plant_store_http_connections')
    await until('it has closed', open, is(limit - 1))
    t.strictSame(
      await (await create()).reply,
      success({ name: 'n' }),
      'another client has room afterwards'
    )
  })
})
