/** Room for connections: how many there may be, and which one is given up for a new one. */
import { List } from '../shared/list.ts'
import type { Connection } from './connection.ts'
import { reset } from './internals.ts'
import { negligibleBytes } from './patience.ts'

/** Connections beyond the limit that still get one response: to a probe, or a refusal. */
export const spareConnections = 1_000

/**
 * Given up in constant time, for a new connection:
 * 1. the one without a valid token that was opened or got its last response the longest time ago, whatever it does: its
 *    requests are decided at once, so all that it can wait for is its client;
 * 2. the trusted one that has been idle for the longest time.
 * Where all are trusted and busy, the new one is one too many. Of these, too, the oldest makes room.
 */
export class Room {
  readonly #limit: number
  readonly #unknown = new List<Connection>()
  readonly #idle = new List<Connection>()
  readonly #excess = new List<Connection>()
  /** The connections that count. One that was given up does not, although it has not closed yet. */
  readonly #ordinary = new Set<Connection>()
  readonly #excessive = new Set<Connection>()
  /** How many were given up, by whether a request of them had a valid token. */
  readonly evicted = { none: 0, valid: 0 }
  /** How many that were one too many made room for another such. */
  dropped = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Makes room for one more, if that can be; returns whether it is one too many. */
  make(): boolean {
    if (this.#ordinary.size < this.#limit) return false
    const given = this.#unknown.first ?? this.#idle.first
    if (given !== undefined) {
      this.evicted[given.isTrusted ? 'valid' : 'none']++
      this.#evict(given)
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
  move(connection: Connection): void {
    connection.unlink()
    if (this.#excessive.has(connection)) this.#excess.push(connection)
    else if (!this.#ordinary.has(connection)) return
    else if (!connection.isTrusted) this.#unknown.push(connection)
    else if (connection.isSpent) this.#idle.push(connection)
  }

  /** Keeps a connection that a request has begun to arrive on, if it is trusted. */
  keep(connection: Connection): void {
    if (connection.isTrusted && !connection.isExcess) connection.unlink()
  }

  /** Forgets a connection that has closed or is given up. */
  remove(connection: Connection): void {
    connection.unlink()
    this.#ordinary.delete(connection)
    this.#excessive.delete(connection)
  }

  #evict(connection: Connection): void {
    this.remove(connection)
    const { socket, isTrusted, isSpent, unreadBytes } = connection
    // A reset frees what the kernel holds for a client that may never read it.
    if (isTrusted || (isSpent && unreadBytes < negligibleBytes)) socket.destroy()
    else reset(socket)
  }
}
