/** Backpressure: pauses connections so that refusals and probes, which anybody can cause, leave time for the creates. */
import type { FastifyReply } from 'fastify'
import type { Connection } from './connection.ts'

/**
 * How many responses that are failures, or that belong to no operation, one turn of the event loop sends before their
 * connections are paused. Few, since libuv ends a turn only when fewer than a thousand connections have something to read:
 * clients that send again at once would keep timers, the database's responses and new batches waiting for seconds.
 */
const responsesPerTurn = 32
/** A response counts once more for each of these bytes. */
const bytesPerResponse = 4_096
/** The most that is paid back later, in turns. What exceeds it, such as the first requests of many connections, is forgiven. */
const maximumDebtTurns = 16

/**
 * Decides which connections are paused, and when they are read again. The first request of a connection
 * that gets such a response is always served; only its next one waits.
 */
export class Backpressure {
  /** Paused connections in the order in which they resume. In each turn, the trusted ones go first. */
  readonly #trusted = new Set<Connection>()
  readonly #unknown = new Set<Connection>()
  /** How many responses were sent beyond those that the turns since then have paid back. */
  #debt = 0
  /** The end of this turn is scheduled. */
  #endsSoon = false

  /** How many connections are paused. */
  get size(): number {
    return this.#trusted.size + this.#unknown.size
  }

  /** Records an accepted connection as debt, which keeps turns short: libuv accepts one in each, and more may wait. */
  recordAccepted(): void {
    this.#addDebt(2 * responsesPerTurn)
  }

  /** Records a response that was sent and is a failure, or belongs to no operation. */
  recordResponse({ request: { raw, connection }, raw: response }: FastifyReply): void {
    const bytes = Number(response.getHeader('content-length') ?? 0)
    this.#addDebt(1 + Math.floor(bytes / bytesPerResponse))
    if (this.#debt <= responsesPerTurn || connection === undefined) return
    const pause = () => {
      if (!connection.pauseReading()) return
      ;(connection.isTrusted ? this.#trusted : this.#unknown).add(connection)
      this.#endTurnSoon()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (raw.complete) pause()
    else raw.once('end', pause)
  }

  /** Reads from every client again. */
  resumeAll(): void {
    for (const connection of [...this.#trusted, ...this.#unknown]) this.#resume(connection)
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    this.#trusted.delete(connection)
    this.#unknown.delete(connection)
  }

  #addDebt(responses: number) {
    this.#debt = Math.min(this.#debt + responses, maximumDebtTurns * responsesPerTurn)
    this.#endTurnSoon()
  }

  #endTurnSoon() {
    if (!this.#endsSoon) setImmediate(() => this.#endTurn())
    this.#endsSoon = true
  }

  /** Pays back a turn's worth of the debt. However large it is, one trusted and one other connection resume in each turn. */
  #endTurn() {
    this.#endsSoon = false
    this.#debt = Math.max(0, this.#debt - responsesPerTurn)
    for (const connections of [this.#trusted, this.#unknown]) {
      let left = Math.max(1, responsesPerTurn - this.#debt)
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
