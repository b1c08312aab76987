/** Promise 11: at SIGTERM what has arrived is answered, and the process ends with exit code 0. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { checkResponses } from '../support/contract.ts'
import { lockTable } from '../support/postgres/database.ts'
import { failure, maskFields, type Reply, success } from '../support/responses.ts'
import { type Service, send, startService } from '../support/service.ts'
import { connectTo, request } from '../support/sockets.ts'
import { is, until } from '../support/until.ts'

t.jobs = 4

const created = success({ name: 'n' })
const malformed = failure('MalformedRequest')
const late = failure('RequestTimeout')

let lastId = 0
const create = (name = 'n') => request(JSON.stringify({ id: ++lastId, name }))
const half = 'POST /plants HTTP/1.1\r\nhost: te'
const longName = 'n'.repeat(900_000)
const body = { 'content-length': '30' }

interface Case {
  title: string
  /** Sent before the signal. */
  before: string
  /** How many of the creates in it wait for the locked table when the signal comes. */
  creates?: number
  /** Sent when the service has begun to drain. */
  after?: string
  /** All that comes back before the connection ends; the last says `connection: close`. */
  expected: Reply[]
  /** The client reads nothing before the service has stopped listening. */
  isUnread?: boolean
  /** How long after `before` and the signal the connection ends at the earliest, in ms. A slow machine only adds to it. */
  afterMs?: number
}

/** What docs/running.md promises: how long each response ends its connection, and an unfinished request then has. */
const noticeMs = 1_500
const unfinishedMs = 10_000

/** What a client has sent can be completed whenever the machine gets to it. */
const patient: Case[] = [
  { title: 'a create in flight gets 200', before: create(), creates: 1, expected: [created] },
  {
    title: 'pipelined creates in flight get 200',
    before: create() + create() + create(),
    creates: 3,
    expected: [created, created, created]
  },
  {
    title: 'a header that is completed later gets 200',
    before: half,
    after: `st\r\n${create().slice(35)}`,
    expected: [created]
  },
  {
    title: 'a body that is completed later gets 200',
    before: request(`{"id":${++lastId},`, body),
    after: '"name":"n"}'.padStart(30 - `{"id":${lastId},`.length),
    expected: [created]
  },
  {
    title: 'garbage behind a create in flight gets 400 after its response',
    before: `${create()}\x01\r\n\r\n`,
    creates: 1,
    expected: [created, malformed]
  },
  {
    title: 'long responses that are not read yet come whole',
    before: Array.from({ length: 5 }, () => create(longName)).join(''),
    creates: 5,
    expected: Array.from({ length: 5 }, () => success({ name: longName })),
    isUnread: true
  },
  {
    title: 'a silent connection is closed without a word',
    before: '',
    expected: [],
    afterMs: noticeMs
  }
]

/** What is never completed ends by the time limits, of which the longest is that of Fastify's plugins. */
const impatient: Case[] = [
  {
    title: 'a header that is never completed gets 408',
    before: half,
    expected: [late],
    afterMs: unfinishedMs
  },
  {
    title: 'a body that is never completed gets 408',
    before: request('{"id":', body),
    expected: [late],
    afterMs: noticeMs + unfinishedMs
  },
  {
    title: 'a body that is never completed gets 408 after the create in flight',
    before: create() + request('{"id":', body),
    creates: 1,
    expected: [created, late],
    afterMs: noticeMs + unfinishedMs
  }
]

/** Opens a connection; `end` resolves with all that came back when the server has closed it. */
async function connect(t: Test, url: string) {
  const socket = connectTo(url)
  t.teardown(() => socket.destroy())
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk)).on('error', () => {})
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await once(socket, 'connect')
  return {
    socket,
    closedAtMs: closed.then(() => performance.now()),
    end: () => closed.then(() => checkResponses(Buffer.concat(chunks)))
  }
}

/** Returns when a further connection is refused. */
const untilDeaf = (t: Test, url: string) =>
  until('it listens no more', async () => {
    const connection = await connect(t, url).catch(() => undefined)
    connection?.socket.destroy()
    return connection === undefined
  })

/** Opens a connection for each case, ends the service by SIGTERM, and compares what comes back. */
async function drain(t: Test, cases: Case[], env: Record<string, string>) {
  const service = await startService(t, env)
  const lock = await lockTable(t, service.databaseUrl)
  const connections = await Promise.all(cases.map(() => connect(t, service.url)))
  const write = (mayWait: boolean) => {
    for (const [index, { before, creates = 0, isUnread }] of cases.entries()) {
      if (isUnread) connections[index]?.socket.pause()
      if (mayWait === creates > 0) connections[index]?.socket.write(before, 'latin1')
    }
  }
  write(true)
  const creates = cases.reduce((sum, { creates = 0 }) => sum + creates, 0)
  const waiting = async () => (await service.metrics()).value('plant_store_queue_rows')
  await until('all creates are in flight', waiting, is(creates))
  // A header has 10 s to arrive, whatever the machine does.
  const writtenAtMs = performance.now()
  write(false)
  service.kill('SIGTERM')
  await service.output(/"signal":"SIGTERM"/)
  for (const [index, { after }] of cases.entries())
    if (after) connections[index]?.socket.write(after, 'latin1')
  await lock.query('rollback')
  await untilDeaf(t, service.url)
  for (const [index, { title, expected, afterMs = 0 }] of cases.entries()) {
    connections[index]?.socket.resume()
    const responses = (await connections[index]?.end()) ?? []
    t.strictSame(
      responses.map(({ status, headers, body }) => ({
        status,
        headers: maskFields(headers),
        body
      })),
      expected,
      title
    )
    const tookMs = Number(await connections[index]?.closedAtMs) - writtenAtMs
    t.ok(tookMs >= afterMs, `${title}: after ${Math.round(tookMs)} ms`)
    if (expected.length > 0)
      t.equal(responses.at(-1)?.headers.connection, 'close', `${title}: says close`)
  }
  await checkEnd(t, service)
}

async function checkEnd(t: Test, service: Service) {
  const { code, stderr } = await service.ended
  t.strictSame({ code, stderr }, { code: 0, stderr: '' }, 'exit code 0, nothing on standard error')
}

t.test('SIGTERM: what has arrived is answered', (t) => drain(t, patient, {}))
t.test('SIGTERM: what never arrives is cut off', (t) => drain(t, impatient, {}))

t.test('SIGTERM: clients that stay after their last response do not hold it up', async (t) => {
  const service = await startService(t, { REQUEST_TIMEOUT_MS: '3000' })
  const stay = (bytes: string) => {
    const socket = connectTo(service.url, { allowHalfOpen: true })
    t.teardown(() => socket.destroy())
    socket.on('error', () => {}).resume()
    socket.write(bytes, 'latin1')
    return once(socket, 'data').then(() => socket)
  }
  const [dripping] = await Promise.all([
    stay('\x01\r\n\r\n'),
    stay('CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n'),
    stay(request('{"id":', { ...body, authorization: undefined }))
  ])
  const drip = setInterval(() => dripping.write('x'), 500)
  t.teardown(() => clearInterval(drip))
  service.kill('SIGTERM')
  await checkEnd(t, service)
})

t.test(
  'SIGTERM: connections that are kept alive and idle are ended without a response',
  async (t) => {
    const service = await startService(t)
    const connections = await Promise.all(Array.from({ length: 5 }, () => connect(t, service.url)))
    for (const { socket } of connections) {
      socket.write(create())
      await once(socket, 'data')
    }
    service.kill('SIGTERM')
    for (const { end } of connections) {
      const responses = await end()
      t.strictSame(
        responses.map(({ status, headers }) => `${status} ${headers.connection}`),
        ['200 keep-alive']
      )
    }
    await checkEnd(t, service)
  }
)

t.test(
  'SIGTERM: a client that keeps its connection busy is told before it is closed',
  async (t) => {
    const pauseMs = 100
    const service = await startService(t)
    const clients = await Promise.all(Array.from({ length: 8 }, () => connect(t, service.url)))
    /** Creates until the connection ends; resolves with the longest time that it was silent. */
    const work = async ({ socket, closedAtMs }: (typeof clients)[number]) => {
      let longestMs = 0
      for (let lastMs = performance.now(); !socket.closed; ) {
        const responded = once(socket, 'data')
        socket.write(create())
        await Promise.race([responded.catch(() => {}), closedAtMs])
        await Promise.race([sleep(pauseMs), closedAtMs])
        longestMs = Math.max(longestMs, performance.now() - lastMs)
        lastMs = performance.now()
      }
      return longestMs
    }
    const silences = clients.map(work)
    await until(
      'all have begun',
      async () => (await service.rows('select from plants')).length >= 16
    )
    service.kill('SIGTERM')
    for (const [index, { end }] of clients.entries()) {
      const responses = await end()
      const longestMs = (await silences[index]) as number
      const last = responses.at(-1)?.headers.connection
      // This process stood still for so long that it was silent for the whole notice.
      if (longestMs > noticeMs / 2) t.comment(`${last} after a silence of ${longestMs} ms`)
      else t.equal(last, 'close')
    }
    await checkEnd(t, service)
  }
)

// A terminal signals a group, and npm passes the signal on.
t.test('further signals do not cut the shutdown off', async (t) => {
  const service = await startService(t, { SHUTDOWN_DELAY_MS: '6000' })
  service.kill('SIGINT')
  service.kill('SIGINT')
  const isNotReady = async () =>
    (await send(`${service.url}/readyz`, { method: 'GET' })).status !== 200
  await until('it is not ready', isNotReady)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) service.kill(signal)
  t.strictSame(await service.post({ id: ++lastId, name: 'n' }), created)
  await checkEnd(t, service)
  t.equal(service.log().filter(({ msg }) => msg === 'shutting down').length, 1)
})
