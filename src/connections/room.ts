/** Room for connections: how many there may be, and which one is evicted for a new one. */
import { List } from '../shared/list.ts'
import type { Connection } from './connection.ts'
import { reset } from './internals.ts'

/** How many connections beyond the limit still get one response: to a probe, or a refusal. */
export const spareConnections = 1_000

/**
 * For a new connection, this evicts another in constant time: the one that has been in its state for the longest time
 * 1. of those without a valid token that are idle;
 * 2. of the others without one: their requests are decided at once, so all that they can wait for is their client;
 * 3. of the trusted ones that are idle.
 * Where all are trusted and busy, the new one is in excess. When there are too many of these, the oldest is evicted.
 */
export class Room {
  readonly limit: number
  /** The connections that count. One that was evicted does not, although it has not closed yet. */
  readonly #ordinary = new Set<Connection>()
  readonly #excess = new Set<Connection>()
  /** In each list, first comes the connection that has been in it for the longest time. */
  readonly #idleUnknown = new List<Connection>()
  readonly #busyUnknown = new List<Connection>()
  readonly #idleTrusted = new List<Connection>()
  readonly #excessByAge = new List<Connection>()
  /** How many ordinary connections were evicted, by whether a request of them had a valid token. */
  readonly evicted = { none: 0, valid: 0 }
  /** How many connections in excess were evicted. */
  dropped = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** Makes room for one more connection, evicting another if it must. Returns false if the new one is in excess. */
  makeRoom(): boolean {
    if (this.#ordinary.size < this.limit) return true
    const chosen = this.#idleUnknown.first ?? this.#busyUnknown.first ?? this.#idleTrusted.first
    if (chosen !== undefined) {
      this.evicted[chosen.isTrusted ? 'valid' : 'none']++
      this.#evict(chosen)
      return true
    }
    const oldest = this.#excessByAge.first
    if (this.#excess.size >= spareConnections && oldest !== undefined) {
      this.dropped++
      this.#evict(oldest)
    }
    return false
  }

  /** Records a new connection. */
  add(connection: Connection): void {
    ;(connection.isExcess ? this.#excess : this.#ordinary).add(connection)
    this.place(connection)
  }

  /** Moves a connection to the end of the list of its present state. */
  place(connection: Connection): void {
    this.#moveTo(connection, connection.isSpent)
  }

  /** Records that a request has begun to arrive on a connection: it is no longer idle, although it may have had all responses. */
  markBusy(connection: Connection): void {
    if (this.#ordinary.has(connection)) this.#moveTo(connection, false)
  }

  /** Forgets a connection that has closed or is evicted. */
  remove(connection: Connection): void {
    connection.unlink()
    this.#ordinary.delete(connection)
    this.#excess.delete(connection)
  }

  #moveTo(connection: Connection, isIdle: boolean) {
    connection.unlink()
    this.#listOf(connection, isIdle)?.push(connection)
  }

  /** Returns the list that a connection belongs to; none if it was evicted, or is trusted and busy. */
  #listOf(connection: Connection, isIdle: boolean): List<Connection> | undefined {
    if (this.#excess.has(connection)) return this.#excessByAge
    if (!this.#ordinary.has(connection)) return undefined
    if (!connection.isTrusted) return isIdle ? this.#idleUnknown : this.#busyUnknown
    return isIdle ? this.#idleTrusted : undefined
  }

  #evict(connection: Connection) {
    this.remove(connection)
    // A reset frees what the kernel holds for a client that may never read it.
    if (connection.isTrusted) connection.socket.destroy()
    else reset(connection.socket)
  }
}
