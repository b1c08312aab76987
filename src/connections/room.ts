/** Room for connections: how many there may be, and which one is evicted for a new one. */
import { List } from '../shared/list.ts'
import type { Connection } from './connection.ts'
import { reset } from './internals.ts'

/** Connections beyond the limit that still get one response: to a probe, or a refusal. */
export const spareConnections = 1_000

/**
 * Evicted in constant time, for a new connection, is the one that has been in its state for the longest time:
 * 1. of those without a valid token that are idle;
 * 2. of the others without one: their requests are decided at once, so all that they can wait for is their client;
 * 3. of the trusted ones that are idle.
 * Where all are trusted and busy, the new one is one too many. Of these, too, the oldest makes room.
 */
export class Room {
  readonly limit: number
  readonly #idleUnknown = new List<Connection>()
  readonly #busyUnknown = new List<Connection>()
  readonly #idleTrusted = new List<Connection>()
  readonly #excess = new List<Connection>()
  /** The connections that count. One that was evicted does not, although it has not closed yet. */
  readonly #ordinary = new Set<Connection>()
  readonly #excessive = new Set<Connection>()
  /** How many were evicted, by whether a request of them had a valid token. */
  readonly evicted = { none: 0, valid: 0 }
  /** How many that were one too many made room for another such. */
  dropped = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** Makes room for one more, if that can be; returns whether it is one too many. */
  make(): boolean {
    if (this.#ordinary.size < this.limit) return false
    const chosen = this.#idleUnknown.first ?? this.#busyUnknown.first ?? this.#idleTrusted.first
    if (chosen !== undefined) {
      this.evicted[chosen.isTrusted ? 'valid' : 'none']++
      this.#evict(chosen)
      return false
    }
    const oldest = this.#excess.first
    if (this.#excessive.size >= spareConnections && oldest !== undefined) {
      this.dropped++
      this.#evict(oldest)
    }
    return true
  }

  /** Takes in a new connection. */
  add(connection: Connection): void {
    ;(connection.isExcess ? this.#excessive : this.#ordinary).add(connection)
    this.move(connection)
  }

  /** Puts a connection at the end of its list, after it was served or has become trusted. */
  move(connection: Connection, isBusy = !connection.isSpent): void {
    connection.unlink()
    this.#listOf(connection, isBusy)?.push(connection)
  }

  /** Takes in that a request has begun to arrive on a connection, which is idle no longer. */
  keep(connection: Connection): void {
    if (this.#ordinary.has(connection)) this.move(connection, true)
  }

  /** Returns the list that a connection belongs to; none if it was evicted, or is trusted and busy. */
  #listOf(connection: Connection, isBusy: boolean): List<Connection> | undefined {
    if (this.#excessive.has(connection)) return this.#excess
    if (!this.#ordinary.has(connection)) return undefined
    if (!connection.isTrusted) return isBusy ? this.#busyUnknown : this.#idleUnknown
    return isBusy ? undefined : this.#idleTrusted
  }

  /** Forgets a connection that has closed or is evicted. */
  remove(connection: Connection): void {
    connection.unlink()
    this.#ordinary.delete(connection)
    this.#excessive.delete(connection)
  }

  #evict(connection: Connection): void {
    this.remove(connection)
    // A reset frees what the kernel holds for a client that may never read it.
    if (connection.isTrusted) connection.socket.destroy()
    else reset(connection.socket)
  }
}
