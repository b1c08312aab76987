/** The open connections of a server, and how they end in a shutdown. */
import type { Socket } from 'node:net'
import { Backpressure } from './backpressure.ts'
import type { Connection } from './connection.ts'
import { Room } from './room.ts'
import { ServerState, type TimeLimits } from './server-state.ts'

/** Limits of a server's connections, as the settings have them. */
export interface ConnectionLimits extends TimeLimits {
  /** Some more connections get one response, and are closed. */
  readonly maxConnections: number
}

/** The open connections of a server, and what they share. */
export class Connections {
  /** Each open connection, by its socket. */
  readonly bySocket = new Map<Socket, Connection>()
  readonly state: ServerState
  /** Which connections are evicted for new ones. */
  readonly room: Room
  readonly backpressure = new Backpressure()
  /** Bytes that the kernel held for the connections about which it was asked last. */
  heldByKernel = 0
  /** How many connections were cut off: their client took nothing of its responses for too long, or the kernel held most for them. */
  stalled = 0

  constructor({ maxConnections, ...limits }: ConnectionLimits) {
    this.state = new ServerState(limits)
    this.room = new Room(maxConnections)
  }

  get size(): number {
    return this.bySocket.size
  }

  /** How many responses are not completely sent. */
  get pending(): number {
    return this.state.pending
  }

  /** Returns the open connections. */
  all(): Connection[] {
    return [...this.bySocket.values()]
  }

  /** Gives each open connection a random time within `ms`, after which its next response is its last. */
  leaveWithin(ms: number): void {
    const now = performance.now()
    for (const connection of this.all()) connection.leaveAt(now + Math.random() * ms)
  }

  /** Makes the next request of each connection its last. What clients of paused connections have sent is read first. */
  beginLastResponses(): void {
    this.state.enter('lastResponses')
    this.backpressure.resumeAll()
  }

  /** Ends each connection when its client has all its responses. */
  beginStopping(): void {
    this.state.enter('stopping')
    this.backpressure.resumeAll()
  }

  /** Half-closes the connections that are idle. What their clients send meanwhile is read and dropped, and resets nothing. */
  finishIdle(): void {
    for (const connection of this.all()) if (connection.isIdle) connection.finish()
  }
}
