/** Backpressure: connections whose requests are refused wait, so that refusals leave time for the creates. */
import type { FastifyRequest } from 'fastify'
import type { Connection } from './connections.ts'

/**
 * How many refusals, or responses that belong to no operation, one turn of the event loop sends before their connections
 * wait. libuv ends a turn only when fewer than a thousand connections have something to read: clients that send again at
 * once would keep timers, the database's responses and new batches waiting for seconds.
 */
const perTurn = 32

/** Decides which connections wait. Such a response is always sent; only the connection's next request waits. */
export class Backpressure {
  /** The connections that wait, in the order in which they resume. */
  readonly #waiting = new Set<Connection>()
  /** How many such responses this turn has sent. */
  #sent = 0
  /** The end of this turn is awaited. */
  #endsSoon = false

  /** Records a refusal, or a response that belongs to no operation. */
  recordRefusal({ raw, connection }: FastifyRequest): void {
    this.#awaitEnd()
    if (++this.#sent <= perTurn || connection === undefined) return
    const wait = () => {
      if (!connection.pause()) return
      this.#waiting.add(connection)
      this.#awaitEnd()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (raw.complete) wait()
    else raw.once('end', wait)
  }

  /** Reads again from those that have waited longest, by default from all. */
  resume(count = this.#waiting.size): void {
    for (const connection of [...this.#waiting].slice(0, count)) {
      this.#waiting.delete(connection)
      connection.socket.resume()
    }
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    this.#waiting.delete(connection)
  }

  #awaitEnd() {
    if (!this.#endsSoon) setImmediate(() => this.#endTurn())
    this.#endsSoon = true
  }

  #endTurn() {
    // A turn that has sent more, as to a pipeline, is followed by one that resumes a single connection.
    this.resume(this.#sent > perTurn ? 1 : perTurn)
    this.#endsSoon = false
    this.#sent = 0
    if (this.#waiting.size > 0) this.#awaitEnd()
  }
}
