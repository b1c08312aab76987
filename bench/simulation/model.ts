/** The model: the service's own group commit in virtual time, on a machine of threads, cores and a log on disk. */
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import type { Limits, Store } from '../../src/group-commit/types.ts'
import { createCores } from './cores.ts'
import { createEventLoop } from './event-loop.ts'
import { createEvents } from './events.ts'
import type { Parts } from './parts.ts'

/** What commits of one size took when they were the only work: CPU times in ms, and the rest of each one's time. */
export interface Commit {
  rows: number
  /** In the service: writing the statement, and reading its answer. */
  serverMs: number
  databaseMs: number
  /** The times, in ms, in which neither worked: mostly the disk. */
  waitsMs: number[]
}

/** Everything that the model knows of a machine; times in ms. */
export interface Parameters {
  cores: number
  /** CPU of the load generator for one request. */
  generatorMs: number
  /** CPU of the service for one request, apart from its commit. */
  requestMs: number
  /** How it is spent. */
  parts: Parts
  /** From one process to another, beside the CPU times. */
  hopMs: number
  /** By size, the smallest first. */
  commits: Commit[]
  limits: Limits
}

/** What the model predicts. */
export interface Prediction {
  plantsPerSecond: number
  p50Ms: number
  rowsPerBatch: number
}

/** Runs `connections`, each sending its next request when it has its answer, for a warm-up and `seconds` after it. */
export async function simulate(
  { cores, generatorMs, requestMs, parts, hopMs, commits, limits }: Parameters,
  {
    connections,
    seconds,
    warmUpSeconds = 0.2
  }: { connections: number; seconds: number; warmUpSeconds?: number }
): Promise<Prediction> {
  const events = createEvents(createRandom(connections))
  const createThread = createCores(events, cores)
  const generator = createEventLoop(createThread())
  const service = createEventLoop(createThread())
  const backends = Array.from({ length: limits.lanes }, createThread)
  const flush = createLog(events)
  const latenciesMs: number[] = []
  let batches = 0
  let isWarm = false

  const store: Store<{ id: bigint; bytes: number }, undefined> = {
    write: ({ length }) =>
      new Promise((resolve) => {
        const { serverMs, databaseMs, waitsMs } = commitOf(commits, length, events.random())
        const waitMs = waitsMs[Math.floor(events.random() * waitsMs.length)] as number
        const backend = backends.pop() as (typeof backends)[number]
        if (isWarm) batches++
        const done = () => {
          backends.push(backend)
          resolve(new Array(length).fill(undefined))
          events.settle()
        }
        // The driver sends behind the answers to the batch before.
        events.after(0, () =>
          service.run(serverMs / 2, () =>
            backend.run(databaseMs, () => flush(waitMs, () => service.read(serverMs / 2, done)))
          )
        )
      }),
    classify: () => 'fatal',
    probe: async () => {}
  }
  const groupCommit = createGroupCommit(store, limits, { clock: { ...events, soon: service.soon } })
  let nextId = 0n

  /** As wrk does: it reads all answers that have come, and sends in its next turn. */
  function send() {
    // No two take quite the same, or all connections would move in step.
    const halfMs = (generatorMs * (0.5 + events.random())) / 2
    generator.read(halfMs, () =>
      generator.read(halfMs, () => {
        const sent = events.now()
        events.after(hopMs, () => service.read(requestMs * parts.read, () => void answer(sent)))
      })
    )
  }

  async function answer(sent: number) {
    await groupCommit.submit({ id: nextId++, bytes: 64 })
    service.run(requestMs * parts.answer, () => {
      events.after(hopMs, () => receive(sent))
      service.run(requestMs * parts.finish, () => {})
    })
  }

  function receive(sent: number) {
    if (isWarm) latenciesMs.push(events.now() - sent)
    send()
  }

  for (let connection = 0; connection < connections; connection++) send()
  await events.runTo(warmUpSeconds * 1000)
  isWarm = true
  await events.runTo((warmUpSeconds + seconds) * 1000)
  latenciesMs.sort((a, b) => a - b)
  return {
    plantsPerSecond: latenciesMs.length / seconds,
    p50Ms: latenciesMs[latenciesMs.length >> 1] ?? Number.NaN,
    rowsPerBatch: latenciesMs.length / batches
  }
}

/** The log on disk: one flush at a time; what comes meanwhile shares the next one. */
function createLog(events: { after(ms: number, callback: () => void): unknown }) {
  let waiting: { ms: number; done: () => void }[] = []
  let isFlushing = false

  function start() {
    const group = waiting
    waiting = []
    isFlushing = group.length > 0
    if (!isFlushing) return
    events.after(Math.max(...group.map(({ ms }) => ms)), () => {
      for (const { done } of group) done()
      start()
    })
  }

  return (ms: number, done: () => void) => {
    waiting.push({ ms, done })
    if (!isFlushing) start()
  }
}

/** Gives the times of a commit between the sizes that were measured; `waitsMs` are those of one of the two. */
export function commitOf(commits: Commit[], rows: number, chance = 0): Commit {
  const above = commits.find((commit) => commit.rows >= rows) ?? (commits.at(-1) as Commit)
  const below = commits.findLast((commit) => commit.rows <= rows) ?? above
  const part = above === below ? 1 : (rows - below.rows) / (above.rows - below.rows)
  const between = (figure: 'serverMs' | 'databaseMs') =>
    below[figure] + part * (above[figure] - below[figure])
  const { waitsMs } = chance < part ? above : below
  return { rows, serverMs: between('serverMs'), databaseMs: between('databaseMs'), waitsMs }
}

/** Gives the same chance in each run: mulberry32, by Tommy Ettinger. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
