/** What is seen of a service on the wire, and the rules that it must keep there. */

import { Frames, readMessage } from '../support/postgres/model/protocol.ts'
import { type Command, readStatement } from '../support/postgres/model/sql.ts'
import type { Process } from './process.ts'
import type { Tap } from './socket.ts'
import type { Statement } from './statement.ts'

/** A connection of a service. */
interface Watched {
  secretKey?: number
  /** Statements that were sent over it. */
  sent: number
  /** The statement whose response the service waits for. */
  waiting?: Command | undefined
  /** When it was sent. */
  sentAt: number
  /** A notice says that its outcome is open. */
  isOpen: boolean
  /** How many rows of the response have reached the kernel; undefined unless it is a success so far. */
  arrived: number | undefined
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
    const watched: Watched = { sent: 0, sentAt: 0, isOpen: false, arrived: undefined }
    const sent = new Frames(false)
    const received = new Frames(true)
    const arrived = new Frames(true)
    const texts = new Map<string, string>()
    let command: Command | undefined
    this.#open.add(watched)
    return {
      onSent: (bytes) => {
        for (const frame of sent.push(bytes)) {
          const message = readMessage(frame)
          if (message.type === 'P') texts.set(message.name, message.text)
          else if (message.type === 'B') command = this.#read(texts.get(message.name) ?? '', message.values)
          else if (message.type === 'Q') {
            watched.sent++
            const asked = this.#read(message.text, [])
            if (asked) this.#begin(watched, asked)
          } else if (message.type === 'S') {
            watched.sent++
            if (command) this.#begin(watched, command)
          }
        }
      },
      onArrived: (bytes) => {
        for (const { type } of arrived.push(bytes)) {
          if (type === 'D' && watched.arrived !== undefined) watched.arrived++
          else if (type === 'E' || type === 'N') watched.arrived = undefined
          else if (type === 'Z') this.#end(watched)
        }
      },
      onReceived: (bytes) => {
        for (const { type, body } of received.push(bytes)) {
          if (type === 'K') watched.secretKey = body.readInt32BE(4)
          else if (type === 'N') watched.isOpen = true
          else if (type === 'Z' || type === 'E') {
            if (type === 'Z') this.#know(watched)
            watched.waiting = undefined
          }
        }
      },
      onClosed: () => void this.#open.delete(watched)
    }
  }

  #read(text: string, values: readonly (string | null)[]): Command | undefined {
    try {
      return readStatement(text, values)
    } catch (error) {
      // If it were thrown here, the driver would handle it.
      this.#process.world.violate((error as Error).message)
      return undefined
    }
  }

  #begin(watched: Watched, command: Command) {
    if (command.kind === 'readiness' || command.kind === 'commitNothing') return
    const others = [...this.#open].flatMap((other) => (other !== watched && other.waiting) || [])
    watched.waiting = command
    watched.arrived = 0
    watched.isOpen = false
    const { world, name } = this.#process
    watched.sentAt = world.now
    for (const { id, write_id } of 'rows' in command ? command.rows : []) {
      const key = `${name} ${id} ${write_id}`
      world.sends.set(key, [...(world.sends.get(key) ?? []), world.now])
    }
    if (others.length >= this.#lanes) world.violate(`${name} has more statements under way than lanes`)
    const ids = idsOf(command)
    const twice = others.flatMap(idsOf).find((id) => ids.includes(id))
    if (twice !== undefined) world.violate(`${name} has two statements with id ${twice} under way`)
  }

  /** The service has the result of a statement: what it has inserted, it knows. */
  #know({ waiting, isOpen, secretKey = 0, sent, sentAt }: Watched) {
    if (!waiting || !('rows' in waiting) || isOpen || this.#cancels.get(secretKey)?.has(sent)) return
    const { world, name } = this.#process
    for (const { id, write_id } of waiting.rows) {
      const key = `${name} ${id} ${write_id}`
      world.known.set(key, [...(world.known.get(key) ?? []), sentAt])
    }
  }

  /** A response is in the kernel of a process that stands still. If it leaves nothing open, the process must use it. */
  #end({ waiting, arrived, secretKey = 0, sent }: Watched) {
    const { world, name, isPaused } = this.#process
    if (!isPaused || waiting?.kind !== 'insert' || arrived !== waiting.rows.length) return
    if (this.#cancels.get(secretKey)?.has(sent)) return
    for (const { id, write_id } of waiting.rows) world.responses.set(`${name} ${id} ${write_id}`, world.now)
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
      onArrived() {},
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

function idsOf(command: Command): readonly string[] {
  if (command.kind === 'find') return command.ids
  return 'rows' in command ? command.rows.map(({ id }) => id as string) : []
}
