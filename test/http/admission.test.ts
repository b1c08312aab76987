/** Admission: what is refused when the storage, the connections or the bodies have no more room, and what is not. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { connectTo, parseResponses, request } from '../../harness/http/raw.ts'
import { createDatabase, lockTable } from '../../harness/postgres/database.ts'
import { shows } from '../../harness/service/metrics.ts'
import { failure, headers, maskId, startService, success } from '../../harness/service/service.ts'

const databaseUrl = await createDatabase(t)
const start = (t: Test, env: Record<string, string>) => startService(t, { DATABASE_URL: databaseUrl, ...env })
type Service = Awaited<ReturnType<typeof start>>

const overloaded = (message: string) => failure(503, message, { 'retry-after': '1' })
const full = overloaded('too many requests are waiting; this request stored nothing; retry later')
const bodies = overloaded(
  'too many request bodies are being received; this request stored nothing; retry later'
)

let lastId = 0
const plant = (name = 'n') => JSON.stringify({ id: ++lastId, name })

/** Opens a connection that only the end of the test closes. */
async function open(t: Test, { url }: Service): Promise<Socket> {
  const socket = connectTo(url)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Reads the next response that comes in one piece. */
async function readResponse(socket: Socket) {
  const [bytes] = await once(socket, 'data')
  const [{ status, headers, body }] = parseResponses(bytes) as [ReturnType<typeof parseResponses>[number]]
  const { date, connection, 'keep-alive': _, 'content-length': __, ...fields } = headers
  return { status, headers: maskId(fields), body, connection }
}

t.test('a full queue', async (t) => {
  const service = await start(t, { WRITE_QUEUE_ROWS: '1' })
  const holder = await lockTable(t, databaseUrl)
  const waiting = service.post(plant())
  await shows(t, service, 'queue_rows', 1)
  // Its body has been read: the queue counts it.
  await shows(t, service, 'http_body_bytes', 0)

  t.test('a create is refused, whatever its body holds, and leaves a short line', async (t) => {
    for (const body of [plant(), 'not json', '{"id":"no"}']) {
      t.strictSame(await service.post(body), full)
      const { time, durationMs, requestId, ...line } = service.log().at(-1)
      t.strictSame(line, {
        level: 40,
        method: 'POST',
        route: '/plants',
        caller: 'tester',
        failure: 503,
        errorName: 'Overloaded',
        client: '127.0.0.1',
        msg: 'too many requests are waiting'
      })
    }
  })

  t.test('what is wrong with its header comes first', async (t) => {
    const cases: [error: number, fields: Record<string, string>][] = [
      [401, { authorization: 'Bearer another-token-0123456789' }],
      [400, { 'idempotency-key': '' }],
      [415, { 'content-type': 'text/plain' }]
    ]
    for (const [error, fields] of cases) {
      const { body } = await service.post(plant(), { headers: { ...headers, ...fields } })
      t.equal(JSON.parse(body).error, error)
    }
    t.equal(JSON.parse((await service.post(`"${'x'.repeat(2 ** 20)}"`)).body).error, 413)
  })

  t.test('the process is still alive', async (t) => {
    t.equal((await fetch(`${service.url}/livez`)).status, 200)
  })

  t.test('when there is room again, creates are admitted', async (t) => {
    await holder.query('rollback')
    t.strictSame(await waiting, success({ name: 'n' }))
    t.strictSame(await service.post(plant()), success({ name: 'n' }))
    t.equal(service.log().at(-1).batchRows, 1)
  })
})

t.test('a create that is larger than what is left of the queue', async (t) => {
  const service = await start(t, { BODY_LIMIT_BYTES: '1500', WRITE_QUEUE_BYTES: '2000' })
  const holder = await lockTable(t, databaseUrl)
  const waiting = service.post(plant('x'.repeat(900)))
  await shows(t, service, 'queue_bytes', 964)
  t.strictSame(await service.post(plant('x'.repeat(1_100))), full)
  await holder.query('rollback')
  t.equal((await waiting).status, 200)
})

t.test('a create that fails counts no longer', async (t) => {
  const service = await start(t, {})
  const body = plant()
  t.equal((await service.post(body)).status, 200)
  t.strictSame(await service.post(body), failure(409, 'a plant with this id already exists'))
  await shows(t, service, 'queue_bytes', 0)
})

t.test('a create whose client has left counts until it is decided', async (t) => {
  const service = await start(t, {})
  const holder = await lockTable(t, databaseUrl)
  const sockets = await Promise.all(Array.from({ length: 3 }, () => open(t, service)))
  for (const socket of sockets) socket.write(request(plant('x'.repeat(1_000))))
  await shows(t, service, 'queue_rows', 3)
  for (const socket of sockets) socket.resetAndDestroy()
  await shows(t, service, 'http_connections', 0)
  await shows(t, service, 'queue_bytes', 3 * 1_064)
  await holder.query('rollback')
  await shows(t, service, 'queue_bytes', 0)
})

t.test('bodies beyond BODY_MEMORY_BYTES', async (t) => {
  const service = await start(t, { BODY_LIMIT_BYTES: '100', BODY_MEMORY_BYTES: '200' })
  const body = plant('x'.repeat(40))
  const created = { ...success({ name: 'x'.repeat(40) }), connection: 'keep-alive' }
  const half = request(body).slice(0, -30)
  const chunked = { 'content-length': undefined, 'transfer-encoding': 'chunked' }
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

  t.test('a body with a Content-Length holds that many bytes until it has arrived', async (t) => {
    const slow = await open(t, service)
    slow.write(half)
    await shows(t, service, 'http_body_bytes', body.length)
    const second = await open(t, service)
    second.write(half)
    await shows(t, service, 'http_body_bytes', 2 * body.length)
    const other = await open(t, service)
    other.write(request(plant('x'.repeat(40))))
    t.strictSame(await readResponse(other), { ...bodies, connection: 'keep-alive' }, 'half of it is held')
    second.destroy()
    slow.write(body.slice(-30))
    t.strictSame(await readResponse(slow), created)
    await shows(t, service, 'http_body_bytes', 0)
    other.write(request(plant('x'.repeat(40))))
    t.strictSame(await readResponse(other), created, 'the same connection continues')
  })

  t.test('a chunked body counts with its buffer, and is refused when there is no more room', async (t) => {
    const long = plant('x'.repeat(3_850))
    const memory = String(2 * long.length + 50)
    const service = await start(t, { BODY_LIMIT_BYTES: '4000', BODY_MEMORY_BYTES: memory })
    const slow = await open(t, service)
    slow.write(request(long).slice(0, -30))
    await shows(t, service, 'http_body_bytes', long.length)
    const other = await open(t, service)
    other.write(request('', chunked) + chunk('x'.repeat(20)))
    await shows(t, service, 'http_body_bytes', long.length + 1_024)
    const refused = readResponse(other)
    other.write(chunk('x'.repeat(2_000)))
    t.strictSame(await refused, { ...bodies, connection: undefined })
    await shows(t, service, 'http_body_bytes', long.length)
    other.write(`${chunk('x'.repeat(30))}0\r\n\r\n${request(plant())}`)
    t.strictSame(await readResponse(other), { ...success({ name: 'n' }), connection: 'keep-alive' })
  })

  t.test('a body that breaks off releases its bytes', async (t) => {
    const starts: [string, number][] = [
      [half, body.length],
      [request('', chunked) + chunk('x'.repeat(20)), 100]
    ]
    for (const [start, bytes] of starts) {
      for (const leave of ['destroy', 'resetAndDestroy'] as const) {
        const slow = await open(t, service)
        await shows(t, service, 'http_body_bytes', 0)
        slow.write(start)
        await shows(t, service, 'http_body_bytes', bytes)
        slow[leave]()
        await shows(t, service, 'http_body_bytes', 0)
      }
    }
  })

  t.test('a chunked body may be as long as the room for all', async (t) => {
    const service = await start(t, { BODY_LIMIT_BYTES: '5000', BODY_MEMORY_BYTES: '5000' })
    const other = await open(t, service)
    const long = plant('x'.repeat(4_900))
    other.write(request('', chunked))
    for (const part of [long.slice(0, 1_500), long.slice(1_500, 3_200), long.slice(3_200)])
      other.write(chunk(part))
    other.write('0\r\n\r\n')
    t.equal((await readResponse(other)).status, 200)
    await shows(t, service, 'http_body_bytes', 0)
  })

  t.test('what comes after a response takes no room', async (t) => {
    const service = await start(t, { BODY_LIMIT_BYTES: '100', BODY_MEMORY_BYTES: '1000' })
    const early: [string, RegExp][] = [
      [request('', chunked, 'GET /livez HTTP/1.1'), /alive/],
      [request('', { ...chunked, authorization: undefined }), /"error":401/],
      [request('', chunked) + chunk('x'.repeat(101)), /"error":413/]
    ]
    for (const [start, expected] of early) {
      const endless = await open(t, service)
      endless.write(start)
      t.match((await readResponse(endless)).body, expected)
      await new Promise<void>((resolve) => endless.write(chunk('x'.repeat(90)).repeat(100), () => resolve()))
      const other = await open(t, service)
      other.write(`${request('', chunked)}${chunk(plant('x'.repeat(40)))}0\r\n\r\n`)
      t.strictSame(await readResponse(other), created, 'there is room for another')
      await shows(t, service, 'http_body_bytes', 0)
      endless.destroy()
    }
  })

  t.test('a refused body releases its bytes, and a good chunked one is read', async (t) => {
    t.equal(JSON.parse((await service.post('x'.repeat(100))).body).error, 400)
    await shows(t, service, 'http_body_bytes', 0)
    const other = await open(t, service)
    other.write(`${request('', chunked)}${chunk(plant())}0\r\n\r\n`)
    t.strictSame(await readResponse(other), { ...success({ name: 'n' }), connection: 'keep-alive' })
    await shows(t, service, 'http_body_bytes', 0)
  })
})

t.test('large bodies that arrive together', async (t) => {
  const service = await start(t, {})
  const count = 8
  const length = 500_000
  const noJson = 'x'.repeat(length)
  /** Sends all but the last byte of each body. */
  async function begin(write: (index: number) => string) {
    const sockets = await Promise.all(Array.from({ length: count }, () => open(t, service)))
    for (const [index, socket] of sockets.entries()) socket.write(request(write(index)).slice(0, -1))
    await shows(t, service, 'http_body_bytes', count * length)
    return sockets
  }
  let turn = 0
  let isOver = false
  const countTurns = () => {
    turn++
    if (!isOver) setImmediate(countTurns)
  }
  countTurns()
  t.teardown(() => (isOver = true))
  const replies: { turn: number; isSent: boolean }[] = []
  const onReplied = (_: unknown, isSent: boolean) => replies.push({ turn, isSent })

  t.test('are read one in each turn of the event loop, so that others are served between them', async (t) => {
    const sockets = await begin(() => noJson)
    service.app.server.on('replied', onReplied)
    for (const socket of sockets) socket.write('x')
    const responses = await Promise.all(sockets.map(readResponse))
    service.app.server.off('replied', onReplied)
    const malformed = { ...failure(400, 'the body is not valid JSON'), connection: undefined }
    for (const response of responses) t.strictSame(response, malformed)
    t.equal(new Set(replies.map(({ turn }) => turn)).size, count)
    for (const socket of sockets) socket.destroy()
    await shows(t, service, 'http_connections', 0)
    await shows(t, service, 'http_body_bytes', 0)
  })

  t.test('are dropped, and nothing of them stored, if their clients leave meanwhile', async (t) => {
    const plants = Array.from({ length: count }, () => plant('n'.repeat(length - 30)))
    const sockets = await begin((index) => (index === 0 ? noJson : (plants[index] as string).padEnd(length)))
    replies.length = 0
    service.app.server.on('replied', onReplied).once('replied', () => {
      for (const socket of sockets) socket.resetAndDestroy()
    })
    for (const [index, socket] of sockets.entries()) socket.write(index === 0 ? 'x' : ' ')
    await shows(t, service, 'http_body_bytes', 0)
    await shows(t, service, 'http_connections', 0)
    service.app.server.off('replied', onReplied)
    t.equal(replies.length, count, 'each of them ends once')
    t.equal((await service.post(plant())).status, 200)
    const ids = plants.map((text) => JSON.parse(text).id)
    const stored = await service.rows('select id from plants where id = any($1)', [ids])
    t.ok(stored.length < count / 2, `${stored.length} of them were read before`)
    const faults = service.log().filter(({ level }) => level >= 50)
    t.strictSame(faults, [])
  })
})
