/** The table in docs/operations.md, "Sizing": what a process holds for its clients, line by line as it is measured. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { until } from '../../dev/until.ts'
import { lockTable } from '../support/database.ts'
import { type Bring, heldEach } from '../support/held.ts'
import { type Measured, startMeasured } from '../support/measured.ts'
import { request } from '../support/raw.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/operations.md'), 'utf8')
/** The bounds by their line: bytes, or bytes for each that is counted. */
const bounds = new Map(
  [...page.matchAll(/^\| ([^|]+) \| ([\d,.]+)(?: × its bytes)? \| [^|]+ \| [^|]+ \|$/gm)].map(
    ([, what = '', bytes = '']) => [what, Number(bytes.replaceAll(',', ''))]
  )
)
/** A bound that is more than so many times what is measured is stale. */
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
      await service.shows('http_body_bytes', before + length)
    }
  },
  {
    what: 'responses that a client does not read',
    count: 10,
    bring: (service) => async (client) => {
      const before = await service.metric('http_requests_in_flight')
      client.socket.pause()
      client.send('GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n'.repeat(1_000))
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

for (const { what, count, counted = 1, prepare, bring } of lines) {
  t.test(`${what} holds at most what the table says, and not much less`, async (t) => {
    waiting = 0
    const service = await startMeasured(t)
    const holder = await prepare?.(t, service)
    const each = (await heldEach(t, service, count, bring(service))) / counted
    const bound = bounds.get(what) ?? Number.NaN
    const measured = each.toLocaleString('en', { maximumFractionDigits: 2 })
    t.ok(
      each <= bound && each >= bound / mostSlack,
      `${measured} are held, ${bound.toLocaleString('en')} in the table`
    )
    if (holder) await (holder as Awaited<ReturnType<typeof lockTable>>).query('rollback')
  })
}
