/** How long a connection waits for its client. One clock, which looks several times a second, measures every limit. */
import type { Socket } from 'node:net'
import { findWritten } from './internals.ts'

/** How long a client may be silent after its last response or, once the server has closed, before its first byte. */
const silentMs = 1_000
/** How long a client may keep sending after its last response once the server has closed. */
const lingerMs = 2_000
/** Unread bytes that are not worth a question to the kernel: the responses to some dozens of creates. */
export const negligibleBytes = 16_384

/** Time limits of a server's connections, in ms. */
export interface TimeLimits {
  /** For a header, for the first byte of a body and, once the server has closed, for a whole request. */
  readonly headersTimeoutMs: number
  /** For a whole request, and for a client to take some of its responses. */
  readonly requestTimeoutMs: number
  /** For the next request. */
  readonly keepAliveTimeout: number
}

/** What the connections of a server share. */
export interface Shared extends TimeLimits {
  /** The server is about to close: the next request of each connection is its last. */
  isClosing: boolean
  /** How many responses are not completely sent. */
  pending: number
}

/**
 * What a client is to send next: nothing, since it is not read or waits for us; a request; the rest of a header; the
 * first byte of a body that somebody reads; the rest of a body; or nothing more, since all was sent to it.
 */
export type Awaited = 'nothing' | 'request' | 'header' | 'first byte' | 'body' | 'end'

/** Since when something has been the same, as far as looks have seen. */
class Since {
  #value: unknown = undefined
  #at = 0

  /** Returns for how many ms this value has been seen; undefined begins anew with each look. */
  elapsed(value: unknown, now: number): number {
    if (value === undefined || value !== this.#value) this.#at = now
    this.#value = value
    return now - this.#at
  }
}

/** What one connection has taken and sent, and since when it has not. */
export class Patience {
  readonly #socket: Socket
  /** Bytes that the client has taken, as far as the kernel was asked, and when that became more, in ms. */
  #taken = 0
  #takenAt = 0
  /** When the kernel was asked last, or there was nothing to ask, in ms. */
  #askedAt = 0
  #wasOwing = false
  /** All was sent: what the kernel holds after the connection has closed, nobody asks for. */
  #isEnding = false
  readonly #sending = new Since()
  readonly #request = new Since()
  readonly #step = new Since()

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Bytes that the kernel has accepted and that the client may not have taken. */
  get unreadBytes(): number {
    const written = findWritten(this.#socket)
    return written ? written.accepted - this.#taken : 0
  }

  /** The client may not have taken all, and it matters. */
  get isOwing(): boolean {
    return this.unreadBytes >= (this.#isEnding ? 1 : negligibleBytes) || this.#socket.writableLength > 0
  }

  /** Takes in that the client has taken this many bytes in all, as the kernel has told at a time in ms. */
  learnTaken(bytes: number, now: number): void {
    this.#askedAt = now
    if (bytes <= this.#taken) return
    this.#taken = bytes
    this.#takenAt = now
  }

  /**
   * Looks at a time in ms at what is awaited of the client, in its `count`th request. Returns `stalled` if it takes nothing
   * of its responses, `late` if it does not send the rest of a request, `silent` if nothing more is to come of it.
   */
  check(now: number, awaited: Awaited, count: number, isClosed: boolean, limits: TimeLimits) {
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeout } = limits
    const shorterMs = Math.min(headersTimeoutMs, requestTimeoutMs)
    this.#isEnding = awaited === 'end'
    const { isOwing } = this
    if (!isOwing || !this.#wasOwing) this.#takenAt = this.#askedAt = now
    this.#wasOwing = isOwing
    const step = awaited === 'first byte' ? count : awaited === 'end' ? awaited : undefined
    const sendingMs = this.#sending.elapsed(this.#socket.bytesRead, now)
    const requestMs = this.#request.elapsed(awaited === 'nothing' ? undefined : count, now)
    const stepMs = this.#step.elapsed(step, now)
    // By what the kernel has told: after this process has stood still, it is asked first.
    if (this.#askedAt - this.#takenAt > (isClosed ? shorterMs : requestTimeoutMs)) return 'stalled'
    switch (awaited) {
      case 'nothing':
        return undefined
      case 'end': {
        // Once the server has closed, the kernel delivers what it holds without this process.
        const hasSent = isClosed ? this.#socket.writableLength === 0 : !isOwing
        const limitMs = isClosed ? lingerMs : requestTimeoutMs
        return hasSent && (sendingMs >= silentMs || stepMs > limitMs) ? 'silent' : undefined
      }
      case 'request': {
        const limitMs = isClosed ? silentMs : count === 0 ? headersTimeoutMs : keepAliveTimeout
        return requestMs > limitMs ? 'silent' : undefined
      }
      case 'header':
        return requestMs > headersTimeoutMs ? 'late' : undefined
      case 'first byte':
      case 'body': {
        const limitMs = isClosed ? shorterMs : requestTimeoutMs
        return stepMs > headersTimeoutMs || requestMs > limitMs ? 'late' : undefined
      }
    }
  }
}
