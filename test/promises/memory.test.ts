/**
 * Promise 18: memory is bounded whatever a balancer passes on. One soak of a process with a small heap, which would die of
 * what it holds beyond its settings; good clients create all the time. FLOOD_SECONDS makes it longer.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { flooder, kinds, type Script } from '../support/floods.ts'
import { lockTable } from '../support/postgres/database.ts'
import { headers, post, type Service, send, startService, token } from '../support/service.ts'
import { open } from '../support/sockets.ts'
import { until } from '../support/until.ts'

const floodMs = Number(process.env.FLOOD_SECONDS ?? 4) * 1_000
// The budget of arriving bodies is 64 MiB, and the pieces of chunked ones count in it; the rest is the process itself.
const heapMb = 128
const goodClients = 10
const pauseMs = 200

const settings = {
  AUTH_TOKENS: `tester:${token},flooder:${flooder}`,
  MAX_CONNECTIONS: '600',
  BODY_LIMIT_BYTES: String(2 ** 20),
  WRITE_QUEUE_ROWS: '1024'
}

/** Sends all kinds to a service until it is told to stop; returns what was acknowledged, and what was wrong. */
function startFlood(service: Service) {
  const stored = new Set<number>()
  const faults = new Set<string>()
  /** How many responses each kind got, by their numbers. */
  const counts: Record<string, number> = {}
  let lastId = 0
  let isOver = false

  /** Sends requests of a kind, each on a connection of its own. */
  async function flood(kind: string, make: (id: number) => Script) {
    const id = ++lastId
    const { parts, gapMs = 0, unreadMs = 0, leaves = false } = make(id)
    const client = await open({ teardown() {} }, service.url)
    if (unreadMs > 0) client.socket.pause()
    const responses = client.responses()
    responses.catch(() => {})
    for (const part of parts) {
      client.send(part)
      if (gapMs > 0) await sleep(gapMs)
    }
    await sleep(unreadMs)
    client.socket.resume()
    if (!leaves) {
      const [response] = await responses
      const { name, error = name === undefined ? 'page' : 200 } = JSON.parse(response?.body ?? '')
      counts[`${kind}: ${error}`] = (counts[`${kind}: ${error}`] ?? 0) + 1
      // As Retry-After says.
      if (error === 503) await sleep(1_000)
      if (error === 200) stored.add(id)
    }
    client.socket.destroy()
  }

  async function createGood() {
    const id = ++lastId
    const { status, body } = await post(`${service.url}/plants`, { id, name: 'good' }, { headers })
    if (status === 200) stored.add(id)
    else faults.add(`a good client met ${body}`)
  }

  /** A busy machine may keep a scrape waiting beyond the limits of that listener. */
  const scrape = async () =>
    void (await send(service.metricsUrl(), { method: 'GET' }).catch(() => {}))

  /** Works until it is over; who gets no response has found a fault. */
  async function keep(what: string, work: () => Promise<void>) {
    for (; !isOver; await sleep(pauseMs))
      await work().catch((error: Error) => {
        faults.add(`${what}: ${error.message}`)
        isOver = true
      })
  }

  const workers = Object.entries(kinds).flatMap(([kind, [connections, make]]) =>
    Array.from({ length: connections }, () => keep(kind, () => flood(kind, make)))
  )
  for (let count = 0; count < goodClients; count++) workers.push(keep('a good client', createGood))
  workers.push(keep('a scrape', scrape))
  const all = Promise.all(workers)
  return {
    stored,
    faults,
    counts,
    /** Resolves after this time, or as soon as there is a fault. */
    goOn: (ms: number) => Promise.race([all, sleep(ms)]),
    async stop() {
      isOver = true
      await all
    }
  }
}

t.test(
  `a heap of ${heapMb} MB holds out against everything, and good clients get 200 only`,
  async (t) => {
    const service = await startService(t, settings, { flags: [`--max-old-space-size=${heapMb}`] })
    const flood = startFlood(service)
    await flood.goOn(floodMs / 3)
    // What waits for the table fills the queue, until more is refused.
    const lock = await lockTable(t, service.databaseUrl)
    const refused = () => flood.counts['bodies up to the limit: 503'] ?? 0
    const before = refused()
    await until('the queue is full', () => refused() > before || flood.faults.size > 0)
    await flood.goOn(floodMs / 3)
    await lock.query('rollback')
    await flood.goOn(floodMs / 3)
    await flood.stop()
    t.comment(flood.counts)
    t.strictSame([...flood.faults], [])
    t.equal(service.child.exitCode ?? service.child.signalCode, null, 'the process is alive')
    const rows = await service.rows('select id::int from plants')
    t.strictSame(new Set(rows.map(({ id }) => id)), flood.stored, 'the rows are those acknowledged')
  }
)
