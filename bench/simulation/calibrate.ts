/** What the model is told of a machine: measured apart from the throughput that it predicts. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { availableParallelism } from 'node:os'
import { readConfig } from '../../src/config/config.ts'
import { createPool } from '../../src/database/pool.ts'
import type { Limits } from '../../src/group-commit/types.ts'
import { createPlantStore, type PlantItem } from '../../src/plants/store.ts'
import { randomWriteId } from '../../src/plants/write-id.ts'
import { headers, makeBody, plant, token } from '../plant.ts'
import { familyCpuUs, usedUs } from '../usage.ts'
import type { Commit } from './database.ts'

const sizes = [1, 8, 64, 256]

/** The limits that a service without settings of its own has. */
export const defaultLimits: Limits = readConfig({
  DATABASE_URL: 'postgres://localhost/plants',
  AUTH_TOKENS: token
}).write

export const cores = availableParallelism()

/**
 * Commits batches of each size for a while by the service's own store. Before each commit goes an exchange over HTTP, as
 * in a service: it finds the caches filled with other work.
 */
export async function measureCommits(
  databaseUrl: string,
  postgres: number,
  seconds: number,
  exchange: () => Promise<unknown>
): Promise<Commit[]> {
  const { database: connection } = readConfig({ DATABASE_URL: databaseUrl, AUTH_TOKENS: token })
  const database = createPool({ connection, size: 1, limitMs: 10_000, log: { warn: () => {} } })
  const store = createPlantStore(database)
  const { signal } = new AbortController()
  const makeBatch = (rows: number) =>
    Array.from({ length: rows }, () => ({ item: makeItem(), repeated: false }))
  const commits: Commit[] = []
  try {
    await store.write(makeBatch(1), signal) // the first one connects
    for (const rows of sizes) {
      const durationsMs: number[] = []
      const databaseUs = familyCpuUs(postgres)
      let serverUs = 0
      for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
        await exchange()
        const batch = makeBatch(rows)
        const before = process.cpuUsage()
        const began = performance.now()
        await store.write(batch, signal)
        durationsMs.push(performance.now() - began)
        serverUs += usedUs(before)
      }
      const count = durationsMs.length
      const serverMs = serverUs / 1000 / count
      const databaseMs = (familyCpuUs(postgres) - databaseUs) / 1000 / count
      const waitsMs = durationsMs.map((ms) => Math.max(0, ms - serverMs - databaseMs))
      commits.push({ rows, serverMs, databaseMs, waitsMs })
    }
  } finally {
    await database.end()
  }
  return commits
}

/**
 * Sends a request, and gives its bytes and those of its answer, without those of TCP and IP; they are counted from the
 * connection's beginning, so only the first over a connection gives its own.
 */
export async function measureExchange(url: string): Promise<{ request: number; answer: number }> {
  const body = makeBody()
  const sending = request(url, {
    method: 'POST',
    headers: { ...headers, 'content-length': body.length }
  }).end(body)
  const [response] = (await once(sending, 'response')) as [IncomingMessage]
  const { socket } = response
  await once(response.resume(), 'end')
  return { request: socket.bytesWritten, answer: socket.bytesRead }
}

let lastId = 0n

/** An id anywhere in the range, none twice: a multiple of an odd number. */
function makeItem(): PlantItem {
  const id = BigInt.asIntN(64, ++lastId * 0x9e3779b97f4a7c15n)
  const bytes = 64 + plant.name.length + plant.tag.length
  return { id, plant: { id, ...plant }, writeId: randomWriteId(), isKeyed: false, bytes }
}
