/** What is seen of a service on the wire, and the rules that it must keep there. */

import type { Process } from './process.ts'
import { Frames, readMessage } from './protocol.ts'
import type { Tap } from './socket.ts'
import { readStatement } from './sql.ts'
import type { Statement } from './statement.ts'

/** A statement whose answer a service waits for. */
interface Waiting {
  ids: readonly string[]
}

/** A connection of a service. */
interface Watched {
  secretKey?: number
  /** Statements that were sent over it. */
  sent: number
  waiting?: Waiting | undefined
}

/** Watches one service: it has no more statements under way than lanes, no id twice, and cancels only what it means to. */
export class Watch {
  readonly #process: Process
  readonly #lanes: number
  readonly #open = new Set<Watched>()
  /** The statements that cancel requests were sent for, by the secrets of their connections. */
  readonly #cancels = new Map<number, Set<number>>()

  constructor(process: Process, lanes: number) {
    this.#process = process
    this.#lanes = lanes
  }

  /** For a connection of the pool. */
  tapConnection(): Tap {
    const watched: Watched = { sent: 0 }
    const sent = new Frames(false)
    const received = new Frames(true)
    const texts = new Map<string, string>()
    let ids: readonly string[] = []
    this.#open.add(watched)
    return {
      onSent: (bytes) => {
        for (const frame of sent.push(bytes)) {
          const message = readMessage(frame)
          if (message.type === 'P') texts.set(message.name, message.text)
          else if (message.type === 'B') ids = this.#idsOf(texts.get(message.name) ?? '', message.values)
          else if (message.type === 'Q') watched.sent++
          else if (message.type === 'S') {
            watched.sent++
            this.#begin(watched, { ids })
          }
        }
      },
      onReceived: (bytes) => {
        for (const { type, body } of received.push(bytes)) {
          if (type === 'K') watched.secretKey = body.readInt32BE(4)
          else if (type === 'Z' || type === 'E') watched.waiting = undefined
        }
      },
      onClosed: () => void this.#open.delete(watched)
    }
  }

  #idsOf(text: string, values: readonly (string | null)[]): string[] {
    try {
      return idsOf(text, values)
    } catch (error) {
      // Thrown here, it would be the driver's problem.
      this.#process.world.violate((error as Error).message)
      return []
    }
  }

  #begin(watched: Watched, waiting: Waiting) {
    const others = [...this.#open].flatMap((other) => (other !== watched && other.waiting) || [])
    watched.waiting = waiting
    const { world, name } = this.#process
    if (others.length >= this.#lanes) world.violate(`${name} has more statements under way than lanes`)
    const twice = others.flatMap(({ ids }) => ids).find((id) => waiting.ids.includes(id))
    if (twice !== undefined) world.violate(`${name} has two statements with id ${twice} under way`)
  }

  /** For a connection that carries a cancel request. */
  tapCancel(): Tap {
    const frames = new Frames(false)
    return {
      onSent: (bytes) => {
        for (const frame of frames.push(bytes)) {
          const message = readMessage(frame)
          if (message.type !== 'cancel') continue
          const target = [...this.#open].find(({ secretKey }) => secretKey === message.secretKey)
          const meant = this.#cancels.get(message.secretKey) ?? new Set()
          this.#cancels.set(message.secretKey, meant.add(target?.sent ?? 0))
        }
      },
      onReceived() {},
      onClosed() {}
    }
  }

  /** A statement is cancelled by a request that has this secret. */
  checkCancel(statement: Statement, secretKey: number) {
    const meant = this.#cancels.get(secretKey)
    if (meant && !meant.has(statement.number))
      this.#process.world.violate(`a cancel request of ${this.#process.name} meets another statement`)
  }
}

function idsOf(text: string, values: readonly (string | null)[]): string[] {
  const command = readStatement(text, values)
  if (command.kind === 'find') return command.ids
  return command.kind === 'insert' ? command.rows.map(({ id }) => id as string) : []
}
