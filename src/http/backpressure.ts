/** Backpressure: connections whose requests are refused wait, so that refusals leave time for the creates. */
import type { FastifyRequest } from 'fastify'
import type { Connection } from './connections.ts'

/**
 * How many refusals, or responses that belong to no operation, one turn of the event loop sends before their connections
 * wait. libuv ends a turn only when fewer than a thousand connections have something to read: clients that send again at
 * once would keep timers, the database's responses and new batches waiting for seconds.
 */
const perTurn = 32
/** The most that later turns pay back, in turns. */
const maximumDebtTurns = 16

/**
 * Decides which connections wait. The first such response of a connection is always sent; only the next request waits. What
 * one turn sends beyond `perTurn` is a debt, which the next turns pay back: they read from fewer connections. For example,
 * after 96 refusals in one turn, the next two turns resume one connection each, and the third one 32.
 */
export class Backpressure {
  /** The connections that wait, in the order in which they resume. */
  readonly #waiting = new Set<Connection>()
  #debt = 0
  #endsSoon = false

  /** How many connections wait. */
  get size(): number {
    return this.#waiting.size
  }

  /** Records an accepted connection as debt, which keeps turns short: libuv accepts one in each, and more may wait. */
  recordAccepted(): void {
    this.#addDebt(2 * perTurn)
  }

  /** Records a refusal, or a response that belongs to no operation. */
  recordRefusal({ raw, connection }: FastifyRequest): void {
    this.#addDebt(1)
    if (this.#debt <= perTurn || connection === undefined) return
    const wait = () => {
      if (!connection.pause()) return
      this.#waiting.add(connection)
      this.#endTurnSoon()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (raw.complete) wait()
    else raw.once('end', wait)
  }

  /** Reads from every client again. */
  resumeAll(): void {
    for (const connection of [...this.#waiting]) this.#resume(connection)
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    this.#waiting.delete(connection)
  }

  #addDebt(responses: number) {
    this.#debt = Math.min(this.#debt + responses, maximumDebtTurns * perTurn)
    this.#endTurnSoon()
  }

  #endTurnSoon() {
    if (!this.#endsSoon) setImmediate(() => this.#endTurn())
    this.#endsSoon = true
  }

  /** Pays back a turn's worth of the debt. However large it is, one connection resumes in each turn. */
  #endTurn() {
    this.#endsSoon = false
    this.#debt = Math.max(0, this.#debt - perTurn)
    for (const connection of [...this.#waiting].slice(0, Math.max(1, perTurn - this.#debt)))
      this.#resume(connection)
    if (this.#debt > 0 || this.size > 0) this.#endTurnSoon()
  }

  #resume(connection: Connection) {
    this.remove(connection)
    connection.socket.resume()
  }
}
