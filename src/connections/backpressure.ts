/** Backpressure: what anybody can ask for is read no faster than it can be served beside the creates. */
import type { FastifyReply } from 'fastify'
import type { Connection } from './connection.ts'

/**
 * How many failures, and responses without an operation, go in one turn of the event loop before their clients are paused.
 * Few, since libuv ends a turn only when fewer than a thousand connections have something to read: clients that send again at
 * once would keep timers, the database's responses and new batches waiting for seconds.
 */
const perTurn = 32
/** A response counts once more for each of these bytes. */
const bytesEach = 4_096
/** How many turns what was served beyond that, such as the first requests of many connections, is paid back at most. */
const mostTurns = 16

/** Which connections are left unread for a while. A connection's first such request is never left unread, only its next. */
export class Backpressure {
  /** Connections whose next request is left unread, in the order in which they resume: those with a valid token go first. */
  readonly #trusted = new Set<Connection>()
  readonly #others = new Set<Connection>()
  /** What was served, less what earlier turns have paid. */
  #debt = 0
  #endsSoon = false

  /** How many connections are left unread. */
  get size(): number {
    return this.#trusted.size + this.#others.size
  }

  /** Takes in that a connection was accepted. libuv accepts one in each turn: while others may wait for that, turns are short. */
  accept(): void {
    this.#owe(2 * perTurn)
  }

  /** Takes in a response that was sent: a failure, or one without an operation. */
  add({ request: { raw, connection }, raw: response }: FastifyReply): void {
    const bytes = Number(response.getHeader('content-length') ?? 0)
    this.#owe(1 + Math.floor(bytes / bytesEach))
    if (this.#debt <= perTurn || connection === undefined) return
    const pause = () => {
      if (!connection.pauseReading()) return
      ;(connection.isTrusted ? this.#trusted : this.#others).add(connection)
      this.#endTurnSoon()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (raw.complete) pause()
    else raw.once('end', pause)
  }

  /** Reads from every client again. */
  resumeAll(): void {
    for (const connection of [...this.#trusted, ...this.#others]) this.#resume(connection)
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    this.#trusted.delete(connection)
    this.#others.delete(connection)
  }

  #owe(responses: number) {
    this.#debt = Math.min(this.#debt + responses, mostTurns * perTurn)
    this.#endTurnSoon()
  }

  #endTurnSoon() {
    if (!this.#endsSoon) setImmediate(() => this.#endTurn())
    this.#endsSoon = true
  }

  /** One of each kind resumes in each turn, however much there is to pay. */
  #endTurn() {
    this.#endsSoon = false
    this.#debt = Math.max(0, this.#debt - perTurn)
    for (const connections of [this.#trusted, this.#others]) {
      let left = Math.max(1, perTurn - this.#debt)
      for (const connection of connections) {
        if (left-- === 0) break
        this.#resume(connection)
      }
    }
    if (this.#debt > 0 || this.size > 0) this.#endTurnSoon()
  }

  #resume(connection: Connection) {
    this.remove(connection)
    connection.resumeReading()
  }
}
