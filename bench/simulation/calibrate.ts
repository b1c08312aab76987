/** What the model is told of a machine: measured apart from the throughput that it predicts. */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { availableParallelism } from 'node:os'
import { readConfig } from '../../src/config/config.ts'
import { createPool } from '../../src/database/pool.ts'
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import type { Limits } from '../../src/group-commit/types.ts'
import { createPlantStore, type PlantItem } from '../../src/repositories/plant-store.ts'
import { randomWriteId } from '../../src/repositories/write-id.ts'
import { headers, makeBody, plant, token } from '../plant.ts'
import { familyCpuUs } from '../usage.ts'
import type { Commit } from './model.ts'

const sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/** Gives the limits that a service without settings of its own has. */
export const defaultLimits = (databaseUrl: string): Limits =>
  readConfig({ DATABASE_URL: databaseUrl, AUTH_TOKENS: token }).write

export const cores = availableParallelism()

/** Commits batches of each size for a while, one after the other, by the service's own store. */
export async function measureCommits(
  databaseUrl: string,
  postgres: number,
  seconds: number
): Promise<Commit[]> {
  const { database: connection } = readConfig({ DATABASE_URL: databaseUrl, AUTH_TOKENS: token })
  const database = createPool({ connection, size: 1, limitMs: 10_000, log: { warn: () => {} } })
  const store = createPlantStore(database)
  const { signal } = new AbortController()
  const commits: Commit[] = []
  try {
    for (const rows of [...sizes.slice(0, 1), ...sizes]) {
      const durationsMs: number[] = []
      const databaseUs = familyCpuUs(postgres)
      let serverUs = 0
      for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
        const batch = Array.from({ length: rows }, () => ({ item: makeItem(), repeated: false }))
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
  return commits.slice(1) // the first one was the warm-up
}

/** Gives the CPU time, in ms, that group commit and a row's write id take, over a store that takes none. */
export async function measureQueue(limits: Limits): Promise<number> {
  const store = {
    write: async (rows: readonly unknown[]) => rows.map(() => 'created' as const),
    classify: () => 'fatal' as const,
    probe: async () => {}
  }
  const { submit } = createGroupCommit<PlantItem, 'created'>(store, limits)
  const round = () => Promise.all(Array.from({ length: 64 }, () => submit(makeItem())))
  for (let warmUp = 0; warmUp < 500; warmUp++) await round()
  const rounds = 1000
  const began = process.cpuUsage()
  for (let done = 0; done < rounds; done++) await round()
  return usedUs(began) / 1000 / rounds / 64
}

function usedUs(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

/** Gives the bytes of a request and of its answer, without those of TCP and IP. */
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
  const { name, tag } = plant
  return { id, name, tag, writeId: randomWriteId(), isKeyed: false, bytes: 64 + name.length + tag.length }
}
