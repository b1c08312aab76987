/** What the connections of a server share: its time limits, the phase of its shutdown, and the number of pending responses. */
import assert from 'node:assert'

/** Time limits of a server's connections, in ms. */
export interface TimeLimits {
  /** For a header, for the first byte of a body and, once the server stops, for a whole request. */
  readonly headersTimeoutMs: number
  /** For a whole request, and for a client to take some of its responses. */
  readonly requestTimeoutMs: number
  /** For the next request. */
  readonly keepAliveTimeout: number
}

/**
 * The phases of a server, in this order:
 * - `serving`: connections stay open.
 * - `lastResponses`: the next request of each connection is its last.
 * - `stopping`: the server stops listening, and each connection ends when its client has all its responses.
 */
const phases = ['serving', 'lastResponses', 'stopping'] as const
type Phase = (typeof phases)[number]

/** A server, as its connections see it. */
export class ServerState {
  readonly limits: TimeLimits
  /** How many responses of all connections are not completely sent. */
  pending = 0
  #phase: Phase = 'serving'

  constructor(limits: TimeLimits) {
    this.limits = limits
  }

  get phase(): Phase {
    return this.#phase
  }

  /** Enters a later phase, or stays in this one. */
  enter(phase: Phase): void {
    assert(phases.indexOf(phase) >= phases.indexOf(this.#phase), `a server never goes back to ${phase}`)
    this.#phase = phase
  }
}
