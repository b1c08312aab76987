/** A connection from accept to close: how it is read, which responses it is owed, and how it ends. */
import assert from 'node:assert'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { awaits100, isFramingFaulty } from '../shared/framing.ts'
import { Link } from '../shared/list.ts'
import {
  isPausedByNode,
  onMessageBegin,
  pauseForTurn,
  replaceDestroySoon,
  takeOverParser
} from './internals.ts'
import { type Awaited, Patience, type Shared } from './patience.ts'
import { findPieceBytes, findRoom, maximumPending } from './pieces.ts'

/** What Node reads at once, at most. Of a socket with more, libuv reads so much 32 times in one turn of the event loop. */
const fullChunkBytes = 65_536

/**
 * What is still read, in this order:
 * - `open`: requests.
 * - `last`: the newest request to its end. Entered when nothing can come after it, or the service closes.
 * - `over`: nothing is parsed any more. Entered by the last response, and by bytes that are no request.
 * - `finished`: all is sent, and what comes is read and dropped until the client is silent or has closed.
 */
const states = ['open', 'last', 'over', 'finished'] as const
type State = (typeof states)[number]

/** What a connection reports to those who hold it. */
export interface Observer {
  /** A request has begun to arrive, or may have. */
  onBegun(connection: Connection): void
  /** It was served, has nothing more to do, or has become trusted. */
  onServed(connection: Connection): void
  /** A reply was sent or given up. */
  onClosed(reply: FastifyReply): void
}

/** An open connection. Its fields are assigned in this file alone. */
export class Connection extends Link {
  readonly socket: Socket
  /** It was opened beyond the limit: its first request is its last. */
  readonly isExcess: boolean
  /** What its client has taken and sent, and since when it has not. */
  readonly patience: Patience
  readonly #shared: Shared
  readonly #observer: Observer
  /** The responses that are not completely sent, in the order of their requests; Fastify's reply once it has one. */
  readonly #pending = new Map<ServerResponse, FastifyReply | undefined>()
  #state: State = 'open'
  #isTrusted = false
  /** A request has begun to arrive, and its header is not complete. */
  #hasBegun = false
  /** How many requests have begun to arrive. */
  #requests = 0
  /** The request that came last, until its response is sent and its body has ended. */
  #newest: IncomingMessage | undefined = undefined
  /** What cut the newest request off. */
  #newestFailure: Failure | undefined = undefined
  /** Called with that failure, for the reader of the newest request's body. */
  #onBroken: ((failure: Failure) => void) | undefined = undefined
  /** Writes a failure after the pending responses, without Fastify. */
  #writeOwed: (() => void) | undefined = undefined
  /** Bytes that certainly belong to the newest request's body: they hold no other request. */
  #bodyBytes = 0
  #awaits100 = false
  #isReadingPaused = false
  /** It is read on in the next turn. */
  #isPaced = false
  /** From this time on (ms), its next response is its last. */
  #leavesAt = Number.POSITIVE_INFINITY

  /** Takes over a socket that Node's parser reads. */
  constructor(socket: Socket, shared: Shared, isExcess: boolean, observer: Observer) {
    super()
    this.socket = socket
    this.isExcess = isExcess
    this.#shared = shared
    this.#observer = observer
    this.patience = new Patience(socket)
    const parse = takeOverParser(socket)
    socket.on('data', (chunk: Buffer) => {
      this.#read(chunk, parse)
      if (chunk.length >= fullChunkBytes && !socket.isPaused()) this.#pace()
    })
    onMessageBegin(socket, () => this.#begin())
    // For a CONNECT, Node removes its own listener. Without another, a reset would end the process.
    socket.on('error', () => {})
    replaceDestroySoon(socket, () => {
      if (!this.#writeOwed) this.finish()
    })
  }

  /** All further bytes are ignored. */
  get isOver(): boolean {
    return this.#state === 'over' || this.#state === 'finished'
  }

  get isTrusted(): boolean {
    return this.#isTrusted
  }

  /** The body of its newest request is still arriving. */
  get isArriving(): boolean {
    return this.#newest?.complete === false
  }

  /** It has had all responses, and no further request has begun to arrive. */
  get isIdle(): boolean {
    return this.#awaited === 'request' && this.#requests > 0 && this.socket.writableLength === 0
  }

  /** Nothing of it would be lost if it were closed now. */
  get isSpent(): boolean {
    return this.isIdle || (this.#state === 'finished' && this.socket.writableLength === 0)
  }

  /** Returns the failure that cut this request off, if any. The rest of it is not read. */
  failureOf(request: IncomingMessage): Failure | undefined {
    return this.#newest === request ? this.#newestFailure : undefined
  }

  /** Calls back with the failure that cuts off the body of this request, if it is the newest; undefined: no longer. */
  expectBody(request: IncomingMessage, onBroken: ((failure: Failure) => void) | undefined): void {
    if (this.#newest === request) this.#onBroken = onBroken
  }

  /** A request of it had a valid token. */
  trust(): void {
    if (this.#isTrusted) return
    this.#isTrusted = true
    this.#observer.onServed(this)
  }

  /** From a time in ms on, its next response is its last. */
  leaveAt(time: number): void {
    this.#leavesAt = time
  }

  /** Ignores all bytes after this request, if its response is the last one: because it must be, or by itself. Returns whether. */
  endAfter(request: IncomingMessage, mustEnd: boolean): boolean {
    if (this.#newest !== request || this.#writeOwed) return false
    const isLeaving = this.#shared.isClosing || performance.now() >= this.#leavesAt
    const isLast = mustEnd || this.#state !== 'open' || isLeaving || this.socket.readableEnded
    if (isLast) this.stopReading()
    return isLast
  }

  /** Leaves what comes after the newest request unread, until `resumeReading`. Returns whether: a body is read to its end. */
  pauseReading(): boolean {
    if (this.isArriving || this.isOver) return false
    this.#isReadingPaused = true
    this.socket.pause()
    // Its next request may have come.
    this.#observer.onBegun(this)
    return true
  }

  resumeReading(): void {
    this.#isReadingPaused = false
    this.socket.resume()
    this.#observer.onServed(this)
  }

  /** Takes in a request that Node has parsed. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    this.#hasBegun = false
    if (this.#state !== 'open') return
    const { headers } = request
    this.#newest = request
    this.#newestFailure = this.#onBroken = undefined
    this.#bodyBytes = Number(headers['content-length'] ?? 0)
    this.#awaits100 = awaits100(request)
    this.#pending.set(response, undefined)
    this.#shared.pending++
    // After a request to upgrade, Node drops what it has read of the next.
    if (this.#shared.isClosing || headers.upgrade !== undefined || isFramingFaulty(request))
      this.#enter('last')
    // Not even its body is read: a refusal needs none.
    if (this.isExcess) this.#enter('over')
    response.on('close', () => this.#settle(response))
  }

  /** Takes in Fastify's reply to a request; returns whether its response is owed: none is after the connection's last one. */
  attach(reply: FastifyReply): boolean {
    const isOwed = this.#pending.has(reply.raw) && !this.socket.destroyed && !this.socket.writableEnded
    if (isOwed) this.#pending.set(reply.raw, reply)
    return isOwed
  }

  /** Makes the newest request the last: what its client still sends is read and dropped, but not parsed. */
  stopReading(): void {
    if (this.isOver) return
    this.#enter('over')
    if (this.#pending.size === 0) this.finish()
  }

  /**
   * Ends a connection that cannot be read any further. Requests that arrived completely get their responses first, in
   * order. Then Fastify sends the failure of an incomplete one. Without an incomplete one, `write` is called to write it.
   */
  refuse(failure: Failure, write: () => void): void {
    if (this.isOver) return
    this.#enter('over')
    if (this.isArriving) {
      this.#newestFailure = failure
      this.#onBroken?.(failure)
    } else this.#writeOwed = write
    if (this.#pending.size === 0) this.finish()
  }

  /**
   * Sends what is left, its own failure included, and lets `check` destroy the socket when its client has been silent. It is
   * read until then: destroying it with unread bytes would reset the connection, and the client could lose its response.
   */
  finish(): void {
    if (this.#state === 'finished' || this.socket.destroyed) return
    if (this.socket.writable) this.#writeOwed?.()
    this.#enter('finished')
    // After all has been written, so that a client that takes nothing can be reset until then.
    if (!this.socket.writableEnded) this.socket.write('', () => this.socket.end())
    // Nothing is parsed any more, so there is no reason left to pause: what arrives is read and dropped.
    this.socket.resume()
    this.#observer.onServed(this)
  }

  /** Gives up all pending responses, once the socket has closed. */
  close(): void {
    this.#onBroken?.(this.#newestFailure ?? new Failure('MalformedRequest'))
    // After a CONNECT, Node drops queued responses. Destroy them, so that their `close` event fires.
    for (const response of this.#pending.keys()) response.destroy()
  }

  /**
   * Compares what its client does with all time limits, at a time in ms; call it several times a second. Returns `late`
   * for a client to refuse, `stalled` for one that takes nothing of its responses, and `silent` for one that has had all.
   */
  check(now: number, isClosed: boolean): 'late' | 'stalled' | 'silent' | undefined {
    return this.patience.check(now, this.#awaited, this.#requests, isClosed, this.#shared)
  }

  /** What is awaited of its client. It waits for us while it is not read, and for its 100 after other responses. */
  get #awaited(): Awaited {
    const { socket } = this
    if (this.#state === 'finished') return 'end'
    const isUnread = socket.isPaused() || socket.readableLength > 0
    if ((isUnread && !this.#isPaced) || this.isOver) return 'nothing'
    if (this.isArriving) {
      if (this.#awaits100 && this.#pending.size > 1) return 'nothing'
      return this.#onBroken && !this.#newest?.readableDidRead ? 'first byte' : 'body'
    }
    if (this.#hasBegun) return 'header'
    return this.#pending.size > 0 ? 'nothing' : 'request'
  }

  #enter(state: State) {
    assert(states.indexOf(state) >= states.indexOf(this.#state), `a connection never goes back to ${state}`)
    this.#state = state
  }

  #begin() {
    this.#hasBegun = true
    this.#requests++
    this.#observer.onBegun(this)
  }

  /**
   * Stands between the socket and Node's parser, which would parse all that has been read: up to 64 KiB at a time, and so
   * thousands of requests. The parser gets pieces that cannot hold more requests than may wait, and nothing after the
   * last request of the connection.
   */
  #read(chunk: Buffer, parse: (piece: Buffer) => void) {
    const { socket } = this
    for (let from = 0; from < chunk.length; ) {
      if (this.isOver || socket.destroyed) return
      const room = findRoom(this.#pending.size, this.#isTrusted, this.#shared.pending)
      if (((room <= 0 || this.#isReadingPaused) && !this.isArriving) || isPausedByNode(socket)) socket.pause()
      if (socket.isPaused()) return socket.unshift(chunk.subarray(from))
      const bytes = findPieceBytes(room, this.#pending.size === 0 && this.isArriving)
      const to = from + Math.max(bytes, this.#bodyBytes)
      const piece = from === 0 && to >= chunk.length ? chunk : chunk.subarray(from, to)
      parse(piece)
      this.#bodyBytes -= piece.length
      this.#forgetNewest()
      from += piece.length
    }
  }

  /** Reads on in the next turn, so that a client that sends as fast as it can is one of many. */
  #pace() {
    this.#isPaced = true
    pauseForTurn(this.socket, () => {
      this.#isPaced = false
      if (!this.#isReadingPaused) this.socket.resume()
    })
  }

  #settle(response: ServerResponse) {
    const reply = this.#pending.get(response)
    this.#pending.delete(response)
    this.#shared.pending--
    const { size } = this.#pending
    const isHalf = size === maximumPending.unknown / 2 || size === maximumPending.trusted / 2
    if ((isHalf || size === 0) && !this.#isReadingPaused) this.socket.resume()
    this.#forgetNewest()
    if (size === 0 && this.#state === 'over') this.finish()
    this.#observer.onServed(this)
    if (reply !== undefined) this.#observer.onClosed(reply)
  }

  /** Drops the reference to a request that is complete and has its response: it would keep the header in memory. */
  #forgetNewest() {
    if (this.#newest?.complete !== true) return
    if (this.#state === 'last') this.#enter('over')
    if (this.#pending.size > 0) return
    this.#newest = this.#onBroken = undefined
    this.#observer.onServed(this)
  }
}
