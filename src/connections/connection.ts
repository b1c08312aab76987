/** A connection from accept to close: how it is read, which responses it is owed, what it waits for, and how it ends. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'

/** How many requests of one connection may wait for their responses, if all connections together have room for them. */
const maximumPending = 64
/** Beyond this many on all connections together, a connection may have one. */
const maximumPendingTogether = 4_096
/** The shortest request, `GET / HTTP/1.1` and an empty line, has 18 bytes. */
const leastRequestBytes = 16
/** How long a client may be silent after its last response or, during the shutdown, before its first byte. */
const silentMs = 1_000
/** How long a client may keep sending after its last response while the server closes. */
const lingerMs = 2_000

const endsChunked = /(?:^|[,\s])chunked$/i

/** `open`: requests are read; `last`: the newest is the last; `over`: further bytes are ignored; `finished`: all is sent. */
type State = 'open' | 'last' | 'over' | 'finished'

type Reader = (chunk: Buffer) => void

/** Limits of a server's connections, as the settings have them. */
export interface ConnectionLimits {
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  /** Some more get one response and are closed; connections beyond these are closed at once. */
  readonly maxConnections: number
}

/** What the connections of a server share. */
export interface Shared extends ConnectionLimits {
  /** The server is about to close: the next request of each connection is its last. */
  isClosing: boolean
  /** The server has stopped listening: each connection ends when its client has all its responses. */
  hasClosed: boolean
  /** How many responses are not completely sent. */
  pending: number
  /** How many connections were cut off because their client did not read a response. */
  stalled: number
}

/** Returns whether the end of a request, and so anything after it, cannot be trusted (RFC 9112, section 6.1). */
export function isFramingFaulty({ headers, httpVersion }: Pick<IncomingMessage, 'headers' | 'httpVersion'>) {
  const { 'transfer-encoding': coding } = headers
  return coding !== undefined && (httpVersion === '1.0' || !endsChunked.test(coding))
}

/** Whether a client may wait for 100 before it sends its body; in HTTP/1.0 that must be ignored (RFC 9110, section 10.1.1). */
export function awaits100({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
}

/** An open connection. Its fields are assigned in this file alone. */
export class Connection {
  readonly socket: Socket
  /** It was opened beyond the limit: its first request is its last. */
  readonly isExcess: boolean
  readonly #shared: Shared
  readonly #onClosed: (reply: FastifyReply) => void
  /** The responses that are not completely sent, in the order of their requests; Fastify's reply once it has one. */
  readonly #pending = new Map<ServerResponse, FastifyReply | undefined>()
  #state: State = 'open'
  /** The request that came last, until its response is sent and its body has ended. */
  #newest: IncomingMessage | undefined = undefined
  #newestFailure: Failure | undefined = undefined
  /** Writes a failure after the pending responses, without Fastify. */
  #writeOwed: (() => void) | undefined = undefined
  /** Bytes that certainly belong to the newest request's body: they hold no other request. */
  #bodyBytes = 0
  #awaits100 = false
  /** What Node has reported as late while the connection was not read: the newest request's body, or the header after it. */
  #late: IncomingMessage | 'header' | undefined = undefined
  /** Times in ms: when it last waited for the service, when its client last took and sent bytes, since when it waits for the client. */
  #heldAt = Number.NEGATIVE_INFINITY
  #takenAt = 0
  #takenBytes = -1
  #sentAt = 0
  #sentBytes = -1
  #waitingSince: number | undefined = undefined

  /** Takes over a socket that Node's parser reads; `onClosed` is called with each reply that is sent or given up. */
  constructor(socket: Socket, shared: Shared, isExcess: boolean, onClosed: (reply: FastifyReply) => void) {
    this.socket = socket
    this.isExcess = isExcess
    this.#shared = shared
    this.#onClosed = onClosed
    const [parse] = socket.listeners('data') as [Reader]
    socket.off('data', parse)
    socket.on('data', (chunk: Buffer) => this.#read(chunk, parse))
    // For a CONNECT, Node removes its own listener. Without another, a reset would end the process.
    socket.on('error', () => {})
    // Node calls this after the last response. Its own version would destroy the socket at once.
    socket.destroySoon = () => {
      if (!this.#writeOwed) this.finish()
    }
  }

  /** All further bytes are ignored. */
  get isOver(): boolean {
    return this.#state === 'over' || this.#state === 'finished'
  }

  get isArriving(): boolean {
    return this.#newest?.complete === false
  }

  /** One of its requests had a valid token. */
  trust(): void {}

  /** Returns the failure that cut this request off, if any. The rest of it is not read. */
  failureOf(request: IncomingMessage): Failure | undefined {
    return this.#newest === request ? this.#newestFailure : undefined
  }

  /** Returns whether the response to this request is the last one, by `mustEnd` or by itself. If so, further bytes are ignored. */
  endsWith(request: IncomingMessage, mustEnd: boolean): boolean {
    if (this.#newest !== request || this.#writeOwed) return false
    const isLast = mustEnd || this.#state !== 'open' || this.#shared.isClosing || this.socket.readableEnded
    if (isLast) this.stopReading()
    return isLast
  }

  /** Returns whether nothing has come after a request, and more is to be read. */
  isIdleAfter(request: IncomingMessage): boolean {
    return (this.#newest === undefined || this.#newest === request) && !this.isOver
  }

  /** Whether its socket must not be destroyed as idle: responses are not flushed, or its client still sends. */
  get isBusy(): boolean {
    return this.#pending.size > 0 || this.socket.writableLength > 0 || this.socket.writableEnded
  }

  /** Takes in a request that Node has parsed. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    if (this.#state !== 'open') return
    const { headers } = request
    this.#newest = request
    this.#newestFailure = this.#late = undefined
    this.#bodyBytes = Number(headers['content-length'] ?? 0)
    this.#awaits100 = awaits100(request)
    this.#pending.set(response, undefined)
    this.#shared.pending++
    // After a request to upgrade, Node drops what it has read of the next.
    if (this.#shared.isClosing || headers.upgrade !== undefined || isFramingFaulty(request))
      this.#state = 'last'
    // Not even its body is read: a refusal needs none.
    if (this.isExcess) this.#state = 'over'
    response.on('close', () => this.#settle(response))
  }

  /** Takes in Fastify's reply to a request; returns whether its response is owed: none is after the connection's last one. */
  attach(reply: FastifyReply): boolean {
    const isOwed = this.#pending.has(reply.raw) && !this.socket.destroyed && !this.socket.writableEnded
    if (isOwed) this.#pending.set(reply.raw, reply)
    return isOwed
  }

  /** Makes the newest request the last: bytes that are not parsed yet are ignored. */
  stopReading(): void {
    this.#state = 'over'
  }

  /** Ends the connection after the responses that are pending; what its client still sends is read and dropped, but not parsed. */
  stopParsing(): void {
    if (this.isOver) return
    this.stopReading()
    if (this.#pending.size === 0) this.finish()
  }

  /**
   * Ends a connection that cannot be read any further. Requests that arrived completely get their responses
   * first, in order. Then an incomplete one emits `broken` with the failure, for the reader of its body, and Fastify
   * sends the failure. Without an incomplete one, `write` is called to write it.
   */
  refuse(failure: Failure, write: () => void): void {
    if (this.isOver) return
    this.#state = 'over'
    if (this.isArriving) {
      this.#newestFailure = failure
      this.#newest?.emit('broken', failure)
    } else this.#writeOwed = write
    if (this.#pending.size === 0) this.#writeLast()
  }

  /**
   * Returns whether a request that exceeded one of Node's time-outs is late, at a time in ms. It is not if it waited for
   * the service: then its time begins again.
   */
  isLate(now: number): boolean {
    if (!this.#waitsForUs && now - this.#heldAt > this.#shared.headersTimeoutMs) return true
    this.#late = this.isArriving ? this.#newest : 'header'
    return false
  }

  /**
   * Sends what is left to send, and destroys the socket when its client has been silent for a second. Until then it is
   * read: destroying it with unread bytes would reset the connection, and the client could lose its response.
   */
  finish(): void {
    if (this.#state === 'finished' || this.socket.destroyed) return
    this.#state = 'finished'
    this.#waitingSince = undefined
    this.socket.end()
    // Nothing is parsed any more, so there is no reason left to pause: what arrives is read and dropped.
    this.socket.resume()
  }

  /** Gives up all pending responses, once the socket has closed. */
  close(): void {
    const failure = this.#newestFailure ?? new Failure('MalformedRequest')
    for (const response of this.#pending.keys()) {
      response.req.emit('broken', failure)
      // After a CONNECT, Node drops queued responses. Destroy them, so that their `close` event fires.
      response.destroy()
    }
  }

  /**
   * Checks all time limits, at a time in ms; call it several times a second. Destroys the socket of a client that is
   * silent after its last response, or takes nothing of one (`stalled`). Returns `late` for a client to refuse.
   */
  check(now: number): 'stalled' | 'late' | undefined {
    if (this.#waitsForUs) this.#heldAt = now
    const { hasClosed, headersTimeoutMs, requestTimeoutMs } = this.#shared
    const { socket } = this
    const taken = bytesTaken(socket)
    if (socket.writableLength === 0 || taken !== this.#takenBytes) this.#takenAt = now
    this.#takenBytes = taken
    if (socket.bytesRead !== this.#sentBytes) this.#sentAt = now
    this.#sentBytes = socket.bytesRead
    if (now - this.#takenAt > (hasClosed ? Math.min(headersTimeoutMs, requestTimeoutMs) : requestTimeoutMs)) {
      socket.destroy()
      return 'stalled'
    }
    if (this.#state === 'finished') {
      const isSilent = now - Math.max(this.#sentAt, this.#waitingSince ?? now) >= silentMs
      const limitMs = hasClosed ? lingerMs : requestTimeoutMs
      if (isSilent || this.#hasWaited(now, socket.writableFinished, limitMs)) socket.destroy()
    } else if (socket.bytesRead > 0)
      return this.#hasWaited(now, this.#isWaiting, headersTimeoutMs) ? 'late' : undefined
    // Node's own time-outs handle this until the server closes, which ends them.
    else if (this.#hasWaited(now, hasClosed, silentMs)) socket.destroy()
    return undefined
  }

  #hasWaited(now: number, isWaiting: boolean, limitMs: number): boolean {
    if (!isWaiting) this.#waitingSince = undefined
    else this.#waitingSince ??= now
    return now - (this.#waitingSince ?? now) > limitMs
  }

  /** Whether its client cannot be late: we do not read it, or it waits for its 100 after other responses. */
  get #waitsForUs(): boolean {
    if (this.socket.isPaused() || this.socket.readableLength > 0) return true
    return this.isArriving && this.#awaits100 && this.#pending.size > 1
  }

  /** Whether its client has begun or announced something that only it can finish. */
  get #isWaiting(): boolean {
    if (this.#waitsForUs || this.isOver) return false
    const { hasClosed } = this.#shared
    if (this.isArriving) {
      const isUnbegun = this.#newest?.listenerCount('broken') && !this.#newest.readableDidRead
      return hasClosed || isUnbegun || this.#late === this.#newest
    }
    return this.#late === 'header' || (hasClosed && this.#pending.size === 0)
  }

  /**
   * Stands between the socket and Node's parser, which would parse all that has been read: up to 64 KiB at a time, and so
   * thousands of requests. The parser gets pieces that cannot hold more requests than may wait, and nothing after the
   * last request of the connection.
   */
  #read(chunk: Buffer, parse: Reader) {
    const { socket } = this
    for (let from = 0; from < chunk.length; ) {
      if (this.isOver || socket.destroyed) return
      const room = this.#room
      if ((room <= 0 && !this.isArriving) || isPausedByNode(socket)) socket.pause()
      if (socket.isPaused()) return socket.unshift(chunk.subarray(from))
      // Without room, the newest request is read to its end, in pieces too short to hold another.
      const bytes = Math.max(room, 0.5) * leastRequestBytes
      const to = from + Math.max(bytes, this.#bodyBytes)
      const piece = from === 0 && to >= chunk.length ? chunk : chunk.subarray(from, to)
      parse(piece)
      this.#bodyBytes -= piece.length
      this.#forgetNewest()
      from += piece.length
    }
  }

  /** How many more requests it may have; a connection without any may have one. */
  get #room(): number {
    const { size } = this.#pending
    const spare = Math.min(maximumPending - size, maximumPendingTogether - this.#shared.pending)
    return size === 0 ? Math.max(1, spare) : spare
  }

  #writeLast() {
    if (this.socket.writable) this.#writeOwed?.()
    this.finish()
  }

  #settle(response: ServerResponse) {
    const reply = this.#pending.get(response)
    this.#pending.delete(response)
    this.#shared.pending--
    const { size } = this.#pending
    if (size === maximumPending / 2 || size === 0) this.socket.resume()
    this.#forgetNewest()
    if (size === 0 && this.#state === 'over') this.#writeLast()
    if (reply !== undefined) this.#onClosed(reply)
  }

  /** Drops the reference to a request that is complete and has its response: it would keep the header in memory. */
  #forgetNewest() {
    if (this.#newest?.complete !== true) return
    if (this.#state === 'last') this.#state = 'over'
    if (this.#pending.size === 0) this.#newest = undefined
  }
}

type WithHandle = Socket & { _handle?: { bytesWritten: number; writeQueueSize: number } }

/** How many bytes a client has taken, as far as the kernel knows. */
const bytesTaken = ({ _handle: handle }: WithHandle) =>
  Number(handle?.bytesWritten) - Number(handle?.writeQueueSize)

/** While much waits to be written, Node's parser takes no bytes, even from a socket that flows. Node itself resumes it. */
function isPausedByNode(socket: Socket & { _paused?: boolean }): boolean {
  return socket._paused === true
}
