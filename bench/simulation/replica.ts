/** The model's replica of the service: its own group commit on one thread, and the load generator on another. */
import { createGroupCommit } from '../../src/group-commit/group-commit.ts'
import type { Limits, Store } from '../../src/group-commit/types.ts'
import type { Thread } from './cores.ts'
import { type Commit, type Connection, commitOf } from './database.ts'
import { createEventLoop } from './event-loop.ts'
import type { Events } from './events.ts'
import type { Parts } from './parts.ts'

/** What a replica takes; times in ms. */
export interface Costs {
  /** CPU of the load generator for one request. */
  generatorMs: number
  /** CPU of the service for one request, apart from its commit. */
  requestMs: number
  /** How it is spent. */
  parts: Parts
  /** By size, the smallest first. */
  commits: Commit[]
}

interface Around {
  events: Events
  createThread: () => Thread
  connect: () => Connection
  onAnswer(latencyMs: number): void
  onBatch(): void
}

/** Starts a replica with `connections`, each of which sends its next request when it has its answer. */
export function startReplica(
  { generatorMs, requestMs, parts, commits }: Costs,
  limits: Limits,
  connections: number,
  { events, createThread, connect, onAnswer, onBatch }: Around
) {
  const generator = createEventLoop(createThread())
  const service = createEventLoop(createThread())
  const idle = Array.from({ length: limits.lanes }, connect)
  const store: Store<{ id: bigint; bytes: number }, undefined> = {
    write: ({ length }) =>
      new Promise((resolve) => {
        const { serverMs, databaseMs, waitsMs } = commitOf(commits, length, events.random())
        const waitMs = waitsMs[Math.floor(events.random() * waitsMs.length)] as number
        const connection = idle.pop() as Connection
        onBatch()
        const done = () => {
          idle.push(connection)
          resolve(new Array(length).fill(undefined))
          events.settle()
        }
        // The driver sends behind the answers to the batch before.
        events.after(0, () =>
          service.run(serverMs / 2, () =>
            connection({ databaseMs, waitMs }, () => service.read(serverMs / 2, done))
          )
        )
      }),
    classify: () => 'fatal',
    mayBeOneRows: () => false,
    probe: async () => {}
  }
  const groupCommit = createGroupCommit(store, limits, { clock: { ...events, soon: service.soon } })
  let nextId = 0n

  /** As wrk does: it reads all answers that have come, each of which ends the time of its request, and sends in its next turn. */
  function send(answered?: { sent: number }) {
    // No two take quite the same, or all connections would move in step.
    const halfMs = (generatorMs * (0.5 + events.random())) / 2
    generator.read(halfMs, () => {
      if (answered) onAnswer(events.now() - answered.sent)
      generator.read(halfMs, () => {
        const sent = events.now()
        service.read(requestMs * parts.read, () => void answer(sent))
      })
    })
  }

  async function answer(sent: number) {
    await groupCommit.submit({ id: nextId++, bytes: 64 })
    service.run(requestMs * parts.answer, () => {
      send({ sent })
      service.run(requestMs * parts.finish, () => {})
    })
  }

  for (let connection = 0; connection < connections; connection++) send()
}
