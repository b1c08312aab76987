/** The table in docs/monitoring.md, "What a replica holds": what a process holds for its clients, line by line as it is measured. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { request } from '../../harness/http/raw.ts'
import { lockTable } from '../../harness/postgres/database.ts'
import { until } from '../../harness/time/until.ts'
import { Settings } from '../../src/config/settings.ts'
import { type Bring, createSmall, heldEach } from './held.ts'
import { type Measured, patience, startMeasured } from './measured.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/monitoring.md'), 'utf8')
/** The bounds by their line: bytes, or bytes for each that is counted. */
const bounds = new Map(
  [...page.matchAll(/^\|([^|]+)\|([\d,.]+)(?: × its bytes)?\|[^|]+\|[^|]+\|$/gm)].map(
    ([, what = '', bytes = '']) => [what, Number(bytes.replaceAll(',', ''))]
  )
)
/** A bound that is more than this many times what is measured is stale. */
const mostSlack = 4

interface Line {
  what: string
  count: number
  /** The bytes that are counted of each, for a bound in their number. */
  counted?: number
  /** Opens what must be there before. */
  prepare?(t: Test, service: Measured): Promise<unknown>
  bring(service: Measured): Bring
}

const length = 500_000
let waiting = 0

const lines: Line[] = [
  {
    what: 'an idle connection',
    count: 200,
    bring: () => async (client, id) => {
      client.send(request(`{"id":${id},"name":"n"}`))
      await client.responses()
    }
  },
  {
    what: 'a header that arrives',
    count: 200,
    bring: (service) => async (client, index) => {
      const fields = Array.from({ length: 98 }, (_, index) => `x-${index}: ${'x'.repeat(145)}\r\n`)
      client.send(`GET / HTTP/1.1\r\n${fields.join('')}`)
      await until('it is sent', () => client.socket.writableLength === 0)
      // The server reads it before a create that is sent later.
      await createSmall(t, service, -index)
    }
  },
  {
    what: 'a create that waits for its response, without its texts',
    count: 200,
    prepare: (t, { databaseUrl }) => lockTable(t, databaseUrl),
    bring: (service) => async (client, id) => {
      client.send(request(`{"id":${id},"name":"n"}`))
      waiting++
      const rows = waiting
      if (rows === 1 || rows > 200) await service.shows('queue_rows', rows)
    }
  },
  {
    what: 'the texts of a create that waits',
    count: 20,
    counted: length,
    prepare: (t, { databaseUrl }) => lockTable(t, databaseUrl),
    bring: (service) => async (client, id) => {
      const before = await service.metric('queue_rows')
      client.send(request(`{"id":${id},"name":"${'n'.repeat(length)}"}`))
      await service.shows('queue_rows', before + 1)
    }
  },
  {
    what: 'a body that arrives',
    count: 10,
    counted: length,
    bring: (service) => async (client) => {
      const before = await service.metric('http_body_bytes')
      client.send(request('', { 'content-length': undefined, 'transfer-encoding': 'chunked' }))
      for (let sent = 0; sent < length; sent += 1_000) client.send(`3e8\r\n${' '.repeat(1_000)}\r\n`)
      await service.grows('http_body_bytes', before + length - 1)
    }
  },
  {
    what: 'unread responses to 64 requests of a connection',
    count: 10,
    bring: (service) => async (client, id) => {
      // Only a connection that has shown a valid token may have as many.
      client.send(request(`{"id":${id},"name":"n"}`))
      await client.responses()
      const before = await service.metric('http_requests_in_flight')
      client.socket.pause()
      client.send('GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n'.repeat(5_000))
      await service.grows('http_requests_in_flight', before)
      // The kernel takes a part of them, in its own time.
      let written = -1
      await until('no more is read', async () => {
        const last = written
        written = client.socket.bytesWritten - client.socket.writableLength
        return written === last && (await service.metric('http_requests_in_flight')) > before
      })
    }
  }
]

t.test('the table has a line for each that is measured, and no other', async (t) => {
  t.strictSame([...bounds.keys()].sort(), lines.map(({ what }) => what).sort())
})

t.test('a replica at all of its limits fits the heap that Node takes of its container', async (t) => {
  const compose = parse(readFileSync(join(import.meta.dirname, '../../docker-compose.yml'), 'utf8'))
  const memory = Number(/^(\d+)G$/.exec(compose.services.api.deploy.resources.limits.memory)?.[1]) * 2 ** 30
  const limits = Value.Create(Settings)
  const [idle = 0, header = 0, create = 0, texts = 0, body = 0, unread = 0] = bounds.values()
  const heap =
    100_000_000 +
    limits.MAX_CONNECTIONS * (idle + header) +
    limits.WRITE_QUEUE_ROWS * create +
    limits.WRITE_QUEUE_BYTES * texts +
    ((limits.MAX_CONNECTIONS + 4_096) * unread) / 64
  t.ok(heap < memory / 2, `${heap} of heap`)
  const outside = body * limits.BODY_MEMORY_BYTES + 131_072 * limits.MAX_CONNECTIONS
  t.ok(heap + outside < memory, `${heap} of heap, and ${outside} outside`)
})

for (const { what, count, counted = 1, prepare, bring } of lines) {
  t.test(`${what} holds at most what the table says, and not much less`, async (t) => {
    waiting = 0
    // Room for what waits of all rounds.
    const service = await startMeasured(t, { ...patience, WRITE_QUEUE_BYTES: '1000000000' })
    const holder = await prepare?.(t, service)
    const bound = bounds.get(what) ?? Number.NaN
    const range = { least: (bound / mostSlack) * counted, most: bound * counted }
    const each = (await heldEach(t, service, count, bring(service), range)) / counted
    const measured = each.toLocaleString('en', { maximumFractionDigits: 2 })
    t.ok(
      each <= bound && each >= bound / mostSlack,
      `${measured} are held, ${bound.toLocaleString('en')} in the table`
    )
    if (holder) await (holder as Awaited<ReturnType<typeof lockTable>>).query('rollback')
  })
}
