/** How much a client of a certain kind makes the service hold. */
import type { Test } from 'tap'
import { type Client, open, request } from '../../harness/http/raw.ts'
import type { Measured } from './measured.ts'

/** Brings a connection into a state; `index` differs from call to call. */
export type Bring = (client: Client, index: number) => Promise<unknown>

/** Creates a small plant with an id of its own, on a connection that ends with it. */
export async function createSmall(t: Test, service: Measured, id: number) {
  const client = await open(t, service.url)
  client.send(request(`{"id":${id},"name":"n"}`, { connection: 'close' }))
  await client.responses()
  client.socket.destroy()
}

let lastIndex = 0
const uncounted = 6
const mostRounds = 6

/**
 * Brings `count` connections into a state, one by one, and returns the bytes that the service then holds for each. All
 * of them are closed afterwards. A few more, which are not counted, make the service compile and cache what it needs. It
 * may still compile then, or release later what the few had held: a result that is not in the range is measured again,
 * five times at most.
 */
export async function heldEach(
  t: Test,
  service: Measured,
  count: number,
  bring: Bring,
  { least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY } = {}
): Promise<number> {
  const others = await service.metric('http_connections')
  const bringOne = async () => {
    const client = await open(t, service.url)
    await bring(client, ++lastIndex)
    return client
  }
  for (let rest = uncounted; rest > 0; rest--) {
    const { socket } = await bringOne()
    socket.resetAndDestroy()
    await service.shows('http_connections', others)
  }
  for (let round = 1; ; round++) {
    const before = await service.held()
    const clients: Client[] = []
    while (clients.length < count) clients.push(await bringOne())
    const each = Math.round(((await service.held()) - before) / count)
    for (const { socket } of clients) socket.resetAndDestroy()
    await service.shows('http_connections', others)
    if ((each >= least && each <= most) || round === mostRounds) return each
  }
}

/** Asserts that a number of bytes is at most this many. */
export function atMost(t: Test, bytes: number, limit: number, what: string) {
  t.ok(
    bytes <= limit,
    `${what} holds ${bytes.toLocaleString('en')} bytes, at most ${limit.toLocaleString('en')}`
  )
}
