/** The progress of a connection's client: what it has taken and sent, and whether that was in time. */
import type { Socket } from 'node:net'
import { findWritten } from './internals.ts'
import type { TimeLimits } from './server-state.ts'

/** How long a client may be silent after its last response or, once the server stops, before its first byte. */
const silentMs = 1_000
/** How long a client may keep sending after its last response once the server stops. */
const lingerMs = 2_000
/** The kernel is not asked about a client with fewer unread bytes: the responses to some dozens of creates. */
export const negligibleBytes = 16_384

/**
 * What a client is to send next: nothing, since it is not read or waits for us; a request; the rest of a header; the
 * first byte of a body that somebody reads; the rest of a body; or nothing more, since all was sent to it.
 */
export type Awaited = 'nothing' | 'request' | 'header' | 'first byte' | 'body' | 'end'

/** Why a connection ends: see `ClientProgress.check`. */
export type Fault = 'late' | 'stalled' | 'silent'

/** Measures for how long a key, such as the number of a request, has stayed the same from one check to the next. */
class Stopwatch {
  #key: number | 'end' | undefined = undefined
  #startedAt = 0

  /** Returns for how many ms this key has been seen. Another key starts again at 0, and undefined does so at each check. */
  measure(key: number | 'end' | undefined, now: number): number {
    if (key === undefined || key !== this.#key) this.#startedAt = now
    this.#key = key
    return now - this.#startedAt
  }
}

/** What the client of one connection has taken and sent, and for how long it has done neither. */
export class ClientProgress {
  readonly #socket: Socket
  /** How many bytes of responses the client has taken, as far as the kernel was asked. */
  #takenBytes = 0
  /** When that became more, or nothing was unread, in ms. */
  #takenAt = 0
  /** When the kernel was asked last, or nothing was unread, in ms. */
  #askedAt = 0
  /** What `hasUnread` was at the last check. */
  #hadUnread = false
  /** All was sent: nobody asks for what the kernel holds after the connection has closed, so each unread byte matters. */
  #isEnding = false
  /** Keyed by the bytes received. */
  readonly #sinceLastByte = new Stopwatch()
  /** Keyed by the number of the request, while the client is to send something. */
  readonly #inRequest = new Stopwatch()
  /** Keyed by the step that has a time limit of its own: the first byte of a request's body, by its number, or the end. */
  readonly #inStep = new Stopwatch()

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** Bytes that the kernel has accepted and that the client may not have taken. */
  get unreadBytes(): number {
    const written = findWritten(this.#socket)
    return written ? written.accepted - this.#takenBytes : 0
  }

  /** The client may have left enough unread that it matters. */
  get hasUnread(): boolean {
    return this.unreadBytes >= (this.#isEnding ? 1 : negligibleBytes) || this.#socket.writableLength > 0
  }

  /** Records how many bytes the client has taken in all, by the kernel's answer at a time in ms. */
  recordTaken(bytes: number, now: number): void {
    this.#askedAt = now
    if (bytes <= this.#takenBytes) return
    this.#takenBytes = bytes
    this.#takenAt = now
  }

  /**
   * Checks at a time in ms what is awaited of the client in its `count`th request. Returns why its connection ends, if it does:
   * - `late`: it has not sent the rest of a request in time.
   * - `stalled`: it has taken nothing of its responses for too long.
   * - `silent`: nothing more is to come of it.
   */
  check(
    now: number,
    awaited: Awaited,
    count: number,
    isStopping: boolean,
    limits: TimeLimits
  ): Fault | undefined {
    const { headersTimeoutMs, requestTimeoutMs, keepAliveTimeout } = limits
    const shorterMs = Math.min(headersTimeoutMs, requestTimeoutMs)
    const requestLimitMs = isStopping ? shorterMs : requestTimeoutMs
    this.#isEnding = awaited === 'end'
    const { hasUnread } = this
    if (!hasUnread || !this.#hadUnread) this.#takenAt = this.#askedAt = now
    this.#hadUnread = hasUnread
    const step = awaited === 'first byte' ? count : awaited === 'end' ? awaited : undefined
    const sinceLastByteMs = this.#sinceLastByte.measure(this.#socket.bytesRead, now)
    const inRequestMs = this.#inRequest.measure(awaited === 'nothing' ? undefined : count, now)
    const inStepMs = this.#inStep.measure(step, now)
    // Not `now`: after this process has stood still, the kernel is asked before anybody is cut off.
    if (this.#askedAt - this.#takenAt > requestLimitMs) return 'stalled'
    switch (awaited) {
      case 'nothing':
        return undefined
      case 'end': {
        // While the server stops, the process does not wait for what the kernel delivers without it.
        const hasSent = isStopping ? this.#socket.writableLength === 0 : !hasUnread
        const limitMs = isStopping ? lingerMs : requestTimeoutMs
        return hasSent && (sinceLastByteMs >= silentMs || inStepMs > limitMs) ? 'silent' : undefined
      }
      case 'request': {
        const limitMs = isStopping ? silentMs : count === 0 ? headersTimeoutMs : keepAliveTimeout
        return inRequestMs > limitMs ? 'silent' : undefined
      }
      case 'header':
        return inRequestMs > headersTimeoutMs ? 'late' : undefined
      case 'first byte':
        return inStepMs > headersTimeoutMs || inRequestMs > requestLimitMs ? 'late' : undefined
      case 'body':
        return inRequestMs > requestLimitMs ? 'late' : undefined
    }
  }
}
