/** A connection from accept to close: how it is read, which responses it is owed, and how it ends. */
import assert from 'node:assert'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { awaits100, isFramingFaulty } from '../shared/framing.ts'
import { Link } from '../shared/list.ts'
import { type Awaited, ClientProgress, type Fault } from './client-progress.ts'
import {
  isPausedByNode,
  onMessageBegin,
  pauseForTurn,
  replaceDestroySoon,
  takeOverParser
} from './internals.ts'
import { countSpare, findPieceBytes, maximumPending } from './pieces.ts'
import type { ServerState } from './server-state.ts'

/** The most that Node reads at once. Of a socket with more, libuv reads as much 32 times in one turn of the event loop. */
const fullChunkBytes = 65_536

/**
 * What is still read. A connection enters these states in this order, and can skip some:
 * - `open`: requests.
 * - `last`: the newest request to its end. Entered when nothing can come after it, or the server has begun its shutdown.
 * - `over`: nothing is parsed any more. Entered by the last response, and by bytes that are no request.
 * - `finished`: all is sent, and what comes is read and dropped until the client is silent or has closed.
 * - `closed`: nothing. The socket has closed.
 */
const states = ['open', 'last', 'over', 'finished', 'closed'] as const
type State = (typeof states)[number]

/** What a connection reports to its server. */
export interface Observer {
  /** A request has begun to arrive, or may have: the connection is not idle. */
  onBusy(connection: Connection): void
  /**
   * The connection may be idle now, or has become trusted. Reported when a response is sent or given up, when a request is
   * complete after its response, when reading resumes, when the connection is finished, and with its first valid token.
   */
  onChanged(connection: Connection): void
  /** A reply was sent or given up. */
  onReplyClosed(reply: FastifyReply): void
}

/** An open connection. Its fields are assigned in this file alone. */
export class Connection extends Link {
  readonly socket: Socket
  /** It was opened beyond the limit: its first request is its last. */
  readonly isExcess: boolean
  readonly progress: ClientProgress
  readonly #server: ServerState
  readonly #observer: Observer
  /** The responses that are not completely sent, in the order of their requests; Fastify's reply once it has one. */
  readonly #pending = new Map<ServerResponse, FastifyReply | undefined>()
  #state: State = 'open'
  #isTrusted = false
  /** A header is arriving: its request has begun, and is not parsed yet. */
  #isInHeader = false
  /** How many requests have begun to arrive. */
  #requests = 0
  /** The request that came last, until its response is sent and its body has ended. */
  #newest: IncomingMessage | undefined = undefined
  /** What cut the newest request off. */
  #newestFailure: Failure | undefined = undefined
  /** Called with that failure, for the reader of the newest request's body. */
  #onBroken: ((failure: Failure) => void) | undefined = undefined
  /** Writes the refusal that comes after the pending responses, without Fastify; undefined if none does. */
  #pendingRefusal: (() => void) | undefined = undefined
  /**
   * At least so many of the next bytes belong to the newest request's body, and so hold no other request. Each piece is
   * subtracted with the header that it may hold, so the number is mostly too low, and ends below 0.
   */
  #bodyBytes = 0
  /** The client of the newest request may wait for 100 before it sends the body. */
  #awaits100 = false
  /** `pauseReading` was called, and `resumeReading` was not. */
  #isReadingPaused = false
  /** Reading goes on in the next turn. */
  #isPaced = false
  /** From this time on (ms), its next response is its last. */
  #leavesAt = Number.POSITIVE_INFINITY

  /** Takes over a socket that Node's parser reads. */
  constructor(socket: Socket, server: ServerState, isExcess: boolean, observer: Observer) {
    super()
    this.socket = socket
    this.isExcess = isExcess
    this.#server = server
    this.#observer = observer
    this.progress = new ClientProgress(socket)
    const parse = takeOverParser(socket)
    socket.on('data', (chunk: Buffer) => {
      this.#read(chunk, parse)
      if (chunk.length >= fullChunkBytes && !socket.isPaused()) this.#pace()
    })
    onMessageBegin(socket, () => this.#onRequestBegin())
    // For a CONNECT, Node removes its own listener. Without another, a reset would end the process.
    socket.on('error', () => {})
    replaceDestroySoon(socket, () => {
      // A refusal comes after all pending responses: #settle finishes then.
      if (!this.#pendingRefusal) this.finish()
    })
  }

  /** All further bytes are ignored. */
  get isOver(): boolean {
    return this.#state !== 'open' && this.#state !== 'last'
  }

  /** A request of it had a valid token. */
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

  /** Returns the failure that cut this request off, if one did: the rest of the request is not read. */
  failureOf(request: IncomingMessage): Failure | undefined {
    return this.#newest === request ? this.#newestFailure : undefined
  }

  /** Calls back with the failure that cuts off the body of this request, if it is the newest. */
  expectBody(request: IncomingMessage, onBroken: (failure: Failure) => void): void {
    if (this.#newest === request) this.#onBroken = onBroken
  }

  /** Calls back no longer for the body of this request. */
  forgetBody(request: IncomingMessage): void {
    if (this.#newest === request) this.#onBroken = undefined
  }

  /** Records that a request had a valid token. */
  trust(): void {
    if (this.#isTrusted) return
    this.#isTrusted = true
    this.#observer.onChanged(this)
  }

  /** Makes the next response its last, from a time in ms on. */
  leaveAt(time: number): void {
    this.#leavesAt = time
  }

  /** Decides whether the response to this request is the last one; `mustEnd` makes it so. If it is, ignores all further bytes. */
  endIfLast(request: IncomingMessage, mustEnd: boolean): boolean {
    if (this.#newest !== request || this.#pendingRefusal) return false
    const isLeaving = this.#server.phase !== 'serving' || performance.now() >= this.#leavesAt
    const isLast = mustEnd || this.#state !== 'open' || isLeaving || this.socket.readableEnded
    if (isLast) this.stopReading()
    return isLast
  }

  /** Pauses reading after the newest request, and returns true; or returns false, since a body is read to its end. */
  pauseReading(): boolean {
    if (this.isArriving || this.isOver) return false
    this.#isReadingPaused = true
    this.socket.pause()
    // Its next request may have come.
    this.#observer.onBusy(this)
    return true
  }

  /** Reads on after `pauseReading`. */
  resumeReading(): void {
    this.#isReadingPaused = false
    this.socket.resume()
    this.#observer.onChanged(this)
  }

  /** Records a request that Node has parsed. Ignores one that comes after the connection's last. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    this.#isInHeader = false
    if (this.#state !== 'open') return
    const { headers } = request
    this.#newest = request
    this.#newestFailure = this.#onBroken = undefined
    this.#bodyBytes = Number(headers['content-length'] ?? 0)
    this.#awaits100 = awaits100(request)
    this.#pending.set(response, undefined)
    this.#server.pending++
    // After a request to upgrade, Node drops what it has read of the next.
    if (this.#server.phase !== 'serving' || headers.upgrade !== undefined || isFramingFaulty(request))
      this.#enter('last')
    // Not even its body is read: a refusal needs none.
    if (this.isExcess) this.#enter('over')
    response.on('close', () => this.#settle(response))
  }

  /** Records Fastify's reply to a request. Returns whether its response is owed: after the connection's last one, none is. */
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
   * order. If another one is incomplete, Fastify then sends the failure as its response. Otherwise `write` writes it.
   */
  refuse(failure: Failure, write: () => void): void {
    if (this.isOver) return
    this.#enter('over')
    if (this.isArriving) {
      this.#newestFailure = failure
      this.#onBroken?.(failure)
    } else this.#pendingRefusal = write
    if (this.#pending.size === 0) this.finish()
  }

  /**
   * Writes the refusal, if there is one, and half-closes the socket once all is sent. What comes is read until `check` finds
   * the client silent: destroying a socket with unread bytes would reset it, and the client could lose its response.
   */
  finish(): void {
    if (this.#state === 'finished' || this.socket.destroyed) return
    if (this.socket.writable) this.#pendingRefusal?.()
    this.#enter('finished')
    // Not before all has been written: until then, a client that takes nothing can still be reset.
    if (!this.socket.writableEnded) this.socket.write('', () => this.socket.end())
    // Nothing is parsed any more, so there is no reason left to pause: what arrives is read and dropped.
    this.socket.resume()
    this.#observer.onChanged(this)
  }

  /** Gives up all pending responses. Call it once, when the socket has closed. */
  onSocketClosed(): void {
    this.#enter('closed')
    this.#onBroken?.(this.#newestFailure ?? new Failure('MalformedRequest'))
    // After a CONNECT, Node drops queued responses. Destroy them, so that their `close` event fires.
    for (const response of this.#pending.keys()) response.destroy()
  }

  /** Checks at a time in ms whether its client keeps all time limits. Call it several times a second. */
  check(now: number): Fault | undefined {
    const { phase, limits } = this.#server
    return this.progress.check(now, this.#awaited, this.#requests, phase === 'stopping', limits)
  }

  /** What is awaited of its client: nothing while it waits for us to read on, or for its 100 after other responses. */
  get #awaited(): Awaited {
    const { socket } = this
    if (this.#state === 'finished') return 'end'
    const isUnread = socket.isPaused() || socket.readableLength > 0
    if ((isUnread && !this.#isPaced) || this.isOver) return 'nothing'
    if (this.isArriving) {
      if (this.#awaits100 && this.#pending.size > 1) return 'nothing'
      return this.#onBroken && !this.#newest?.readableDidRead ? 'first byte' : 'body'
    }
    if (this.#isInHeader) return 'header'
    return this.#pending.size > 0 ? 'nothing' : 'request'
  }

  #enter(state: State) {
    assert(states.indexOf(state) > states.indexOf(this.#state), `a connection enters ${state} once`)
    this.#state = state
  }

  #onRequestBegin() {
    this.#isInHeader = true
    this.#requests++
    this.#observer.onBusy(this)
  }

  /**
   * Passes what was read to Node's parser, which would parse all of it: up to 64 KiB, and so thousands of requests. The parser
   * gets pieces that cannot hold more requests than may wait, and nothing after the last request of the connection.
   */
  #read(chunk: Buffer, parse: (piece: Buffer) => void) {
    const { socket } = this
    for (let from = 0; from < chunk.length; ) {
      if (this.isOver || socket.destroyed) return
      const spare = countSpare(this.#pending.size, this.#isTrusted, this.#server.pending)
      const mustWait = (spare <= 0 || this.#isReadingPaused) && !this.isArriving
      if (mustWait || isPausedByNode(socket)) socket.pause()
      if (socket.isPaused()) return socket.unshift(chunk.subarray(from))
      const bytes = findPieceBytes(spare, this.#pending.size === 0 && this.isArriving)
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

  /** Records that a response was sent or given up. */
  #settle(response: ServerResponse) {
    const reply = this.#pending.get(response)
    const wasPending = this.#pending.delete(response)
    assert(wasPending, 'a response is settled once')
    this.#server.pending--
    const { size } = this.#pending
    // Reading resumes for several requests at once: if it resumed for each, what was read would be put back after each.
    const isHalf = size === maximumPending.unknown / 2 || size === maximumPending.trusted / 2
    if ((isHalf || size === 0) && !this.#isReadingPaused) this.socket.resume()
    this.#forgetNewest()
    if (size === 0 && this.#state === 'over') this.finish()
    this.#observer.onChanged(this)
    if (reply !== undefined) this.#observer.onReplyClosed(reply)
  }

  /** Drops the reference to a request that is complete and has its response: it would keep the header in memory. */
  #forgetNewest() {
    if (this.#newest?.complete !== true) return
    if (this.#state === 'last') this.#enter('over')
    if (this.#pending.size > 0) return
    this.#newest = this.#onBroken = undefined
    this.#observer.onChanged(this)
  }
}
