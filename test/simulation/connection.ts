/** A simulated connection: bytes come in order, in any pieces, late, in part or never. */
import type { Process } from './process.ts'
import type { World } from './world.ts'

/** How long a piece is typically under way. */
export const typicalMs = 0.15

/** What a peer meets: bytes, the end of the stream, or the loss of the connection. */
export interface Endpoint {
  receive(bytes: Buffer): void
  /** Bytes are in the buffers of its kernel; `receive` is called when the process reads them. */
  arrive?(bytes: Buffer): void
  /** The stream has ended. */
  onEnd(reason: 'ended' | 'reset'): void
}

/** A host that can be connected to. */
export interface Host {
  readonly name: string
  /** It runs; otherwise it refuses connections and resets what it does not know. */
  readonly isUp: boolean
  /** It has vanished: packets to it get no response. */
  readonly isSilent: boolean
  accept(connection: Connection): Endpoint
}

/** How many bytes a connection carries per ms. */
export interface Speed {
  readonly toHost: number
  readonly toClient: number
}

type Item = Buffer | 'ended' | 'reset'

/** One direction of a connection. */
class Pipe {
  readonly #connection: Connection
  readonly #bytesPerMs: number
  readonly #deliver: (item: Item) => void
  readonly #queue: Item[] = []
  #isMoving = false
  /** After how many more bytes the connection breaks. */
  cutAfter: number | undefined = undefined

  constructor(connection: Connection, bytesPerMs: number, deliver: (item: Item) => void) {
    this.#connection = connection
    this.#bytesPerMs = bytesPerMs
    this.#deliver = deliver
  }

  send(item: Item) {
    this.#queue.push(item)
    this.move()
  }

  /** Sends an item instead of all that is on its way. */
  replace(item: Item) {
    this.#queue.length = 0
    this.send(item)
  }

  move() {
    const { world } = this.#connection
    if (this.#isMoving || this.#queue.length === 0 || this.#connection.isBlocked) return
    this.#isMoving = true
    const [next] = this.#queue
    const sendingMs = Buffer.isBuffer(next) ? next.length / this.#bytesPerMs : 0
    world.after(world.duration(typicalMs) + sendingMs, () => {
      this.#isMoving = false
      if (this.#connection.isBlocked) return
      const item = this.#queue.shift()
      if (item === undefined) return
      if (Buffer.isBuffer(item)) this.#deliverBytes(item)
      else this.#deliver(item)
      this.move()
    })
  }

  #deliverBytes(bytes: Buffer) {
    const { random } = this.#connection.world
    const isCut = this.cutAfter !== undefined && this.cutAfter < bytes.length
    const length = isCut
      ? (this.cutAfter as number)
      : random.oneIn(10)
        ? 1 + random.integer(bytes.length)
        : bytes.length
    if (this.cutAfter !== undefined) this.cutAfter -= length
    if (length > 0) this.#deliver(bytes.subarray(0, length))
    if (isCut) this.#connection.reset()
    else if (length < bytes.length) this.#queue.unshift(bytes.subarray(length))
  }
}

/** A connection of a process with a host. */
export class Connection {
  readonly world: World
  readonly process: Process
  readonly host: Host
  readonly toClient: Pipe
  readonly toHost: Pipe
  readonly #isParted: () => boolean
  readonly #server: Endpoint
  /** The host has forgotten it. */
  #isForgotten = false
  #isDeaf = false

  constructor(
    process: Process,
    host: Host,
    client: Endpoint,
    { isParted, bytesPerMs }: { isParted: () => boolean; bytesPerMs: Speed }
  ) {
    this.#isParted = isParted
    this.world = process.world
    this.process = process
    this.host = host
    this.#server = host.accept(this)
    this.toClient = new Pipe(this, bytesPerMs.toClient, (item) => {
      if (Buffer.isBuffer(item)) client.arrive?.(item)
      process.receive(() => (Buffer.isBuffer(item) ? client.receive(item) : client.onEnd(item)))
    })
    this.toHost = new Pipe(this, bytesPerMs.toHost, (item) => {
      if (this.#isForgotten) return Buffer.isBuffer(item) && this.toClient.send('reset')
      if (Buffer.isBuffer(item)) this.#server.receive(item)
      else {
        this.#isForgotten = true
        this.#server.onEnd(item)
      }
    })
  }

  get isBlocked() {
    return this.#isDeaf || this.host.isSilent || this.#isParted()
  }

  /** The host ends it; its kernel tells the client, unless the host is silent. */
  forget(reason: 'ended' | 'reset') {
    this.#isForgotten = true
    if (!this.host.isSilent) this.toClient.send(reason)
  }

  /** The connection breaks for both peers. */
  reset() {
    this.toHost.replace('reset')
    this.toClient.replace('reset')
  }

  joins(process: Process, host: Host) {
    return this.process === process && this.host === host
  }

  /** From now on nothing gets through, and neither peer learns of it. */
  deafen() {
    this.#isDeaf = true
  }

  /** Delivers what could not be delivered. */
  retry() {
    this.toHost.move()
    this.toClient.move()
  }
}
