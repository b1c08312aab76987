/** The checks of all connections, several times a second: which are late, stalled or silent, and what the kernel holds for them. */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Failure } from '../failures/failure.ts'
import type { Connection } from './connection.ts'
import type { Connections } from './connections.ts'
import { reset } from './internals.ts'
import { askKernel, findGreedy, mayExceedBound } from './send-queues.ts'

const checkEveryMs = 250
/** How often the kernel is asked within the time limit of a client that takes nothing. */
const questionsPerLimit = 8
/** After the kernel was asked, it is left alone for this many times as long as that took. */
const restsPerQuestion = 9
/** But for so long at most. */
const longestRestMs = 1_000

/** Checks all connections until the function that it returns is called. `reject` refuses a connection with a failure. */
export function startChecks(
  server: Server,
  connections: Connections,
  reject: (socket: Socket, failure: Failure) => void
): () => void {
  const { state } = connections
  const questionEveryMs = state.limits.requestTimeoutMs / questionsPerLimit
  let hasEnded = false

  function cutOff({ socket }: Connection) {
    connections.stalled++
    server.emit('stalled', socket.remoteAddress)
    reset(socket)
  }

  async function cutOffGreedy(all: Connection[]) {
    const held = await askKernel(all)
    findGreedy(held).forEach(cutOff)
    const left = [...held].filter(([{ socket }]) => !socket.destroyed)
    connections.heldByKernel = left.reduce((sum, [, bytes]) => sum + bytes, 0)
  }

  /** Asks seldom: an answer names the sockets of all processes, closed ones included. Thousands cost 20 ms of CPU time. */
  async function askKernelRepeatedly() {
    let askedAt = 0
    for (; !hasEnded; await sleep(checkEveryMs, undefined, { ref: false })) {
      const began = performance.now()
      const all = connections.all()
      if (began - askedAt < questionEveryMs && !mayExceedBound(all)) continue
      askedAt = began
      await cutOffGreedy(all)
      const restMs = Math.min(longestRestMs, (performance.now() - began) * restsPerQuestion)
      await sleep(restMs, undefined, { ref: false })
    }
  }

  function check() {
    // Some clients got their last response before the shutdown began, but it has been flushed only since.
    if (state.phase === 'stopping') connections.finishIdle()
    const now = performance.now()
    for (const connection of connections.all()) {
      if (connection.socket.destroyed) continue
      const fault = connection.check(now)
      if (fault === 'late') reject(connection.socket, new Failure('RequestTimeout'))
      if (fault === 'stalled') cutOff(connection)
      if (fault === 'silent') connection.socket.destroy()
    }
  }

  // Checked after the poll phase: what arrived while the process stood still was in time, and is read first.
  const timer = setInterval(setImmediate, checkEveryMs, check).unref()
  void askKernelRepeatedly()
  return () => {
    hasEnded = true
    clearInterval(timer)
  }
}
