/** The connections of clients: what each is owed, how long it may wait, and how it ends. By Node's public means alone. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Socket, Server as TcpServer } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failures.ts'
import { formatResponse, type ParserError, toParserFailure } from './raw-response.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The open connections of its server. */
    connections: Connections
  }
}

/** Limits of a server's connections. Times are in ms. */
export interface ConnectionLimits {
  /** A further connection gets one refusal. */
  readonly maxConnections: number
  /** For a header to arrive. */
  readonly headersTimeoutMs: number
  /** For a request to arrive, and for a client to take more of a response. */
  readonly requestTimeoutMs: number
  /** For the next request. */
  readonly keepAliveTimeout: number
}

/** How many connections in excess get their refusal; Node drops further ones. */
const spareConnections = 128
/** How often Node and the shutdown look for clients that are late. */
export const checkEveryMs = 250
/** How long the client of an ended connection may be silent before the socket is destroyed. */
const lingerMs = 1_000

const endsChunked = /(?:^|[,\s])chunked$/i

/** Returns whether the end of a request, and so anything after it, cannot be trusted (RFC 9112, section 6.1). */
function isFramingFaulty({ headers, httpVersion }: IncomingMessage) {
  const { 'transfer-encoding': coding } = headers
  return coding !== undefined && (httpVersion === '1.0' || !endsChunked.test(coding))
}

/** An open connection. */
export class Connection {
  readonly socket: Socket
  /** It came beyond the limit: its first response refuses it, and is its last. */
  readonly isExcess: boolean
  readonly openedAt = performance.now()
  /** The responses that are not complete. */
  readonly #responses = new Set<ServerResponse>()
  /** No further request of it is answered. */
  isOver = false
  /** The request that came last. */
  #newest: IncomingMessage | undefined = undefined
  /** What cut the newest request off while its body arrived. */
  #cutOffBy: Failure | undefined = undefined
  /** Writes the refusal that comes after the pending responses; undefined if there is none. */
  #refusal: (() => void) | undefined = undefined
  #hasFinished = false

  constructor(socket: Socket, isExcess: boolean) {
    this.socket = socket
    this.isExcess = isExcess
  }

  /** How many of its requests have no complete response. */
  get pending(): number {
    return this.#responses.size
  }

  /** The body of its newest request is still arriving. */
  get isArriving(): boolean {
    return this.#newest?.complete === false
  }

  /** Its client is to send something, or nothing more; no response is being made or sent. */
  get isWaiting(): boolean {
    return this.pending === 0 || (this.pending === 1 && this.isArriving)
  }

  /** Returns the failure that cut this request off, if one did: the rest of it does not come. */
  failureOf(request: IncomingMessage): Failure | undefined {
    return this.#newest === request ? this.#cutOffBy : undefined
  }

  /** Records a request. Returns false for one that comes after the connection's last: it must not be carried out. */
  receive(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.isOver) return false
    this.#newest = request
    this.#cutOffBy = undefined
    // What follows such a request is no request, or Node drops it.
    if (this.isExcess || request.headers.upgrade !== undefined || isFramingFaulty(request)) this.isOver = true
    // Before Node's own listener, which ends the socket of a client that has half-closed.
    response.prependOnceListener('finish', () => this.pending === 1 && this.#writeRefusal())
    response.once('close', () => this.#settle(response))
    this.#responses.add(response)
    return true
  }

  /** Decides whether the response to this request is the connection's last; `mustEnd` makes it so. */
  endIfLast(request: IncomingMessage, mustEnd: boolean): boolean {
    if (this.#newest !== request || this.#refusal) return false
    // After a response that says close, Node closes: the client must have sent all of its request, or lose the response.
    if (!request.complete && !mustEnd && !this.#cutOffBy) return false
    if (mustEnd || this.socket.readableEnded) this.isOver = true
    return this.isOver
  }

  /** Gives up what is pending. Call it when the socket has closed: after a CONNECT, Node forgets responses that wait for others. */
  abandon(): void {
    for (const response of this.#responses) response.destroy()
  }

  /**
   * Refuses what cannot be read any further. The requests that have arrived get their responses first, in order. An
   * incomplete one gets the failure by Fastify; otherwise `write` writes it.
   */
  refuse(failure: Failure, write: () => void): void {
    if (this.isOver && !this.isArriving) return
    this.isOver = true
    // Its response may have been sent: then there is none to come.
    if (this.isArriving) {
      this.#cutOffBy = failure
      this.#newest?.emit('cut off', failure)
    } else this.#refusal = write
    if (this.pending === 0) this.#finish()
  }

  /** Records that a response was sent or given up. */
  #settle(response: ServerResponse) {
    this.#responses.delete(response)
    if (this.pending === 0 && this.isOver) this.#finish()
  }

  #writeRefusal() {
    if (this.socket.writable) this.#refusal?.()
    this.#refusal = undefined
  }

  /**
   * Writes the refusal, if there is one, and half-closes. What still comes is read and dropped until the client is silent:
   * a socket that is closed with unread bytes is reset, and its client can lose the response.
   */
  #finish() {
    const { socket } = this
    if (socket.destroyed || this.#hasFinished) return
    this.#hasFinished = true
    this.#writeRefusal()
    socket.end()
    socket.resume()
    // After a CONNECT, nothing else acts on it.
    socket.setTimeout(lingerMs, () => socket.destroy())
  }
}

/** The open connections of a server, and what they share. */
export class Connections {
  /** Each open connection, by its socket, the oldest first. */
  readonly bySocket = new Map<Socket, Connection>()
  readonly limits: ConnectionLimits
  /** How many are not in excess. */
  #admitted = 0
  /** Each response ends its connection, as far as its request has arrived. */
  isLeaving = false

  constructor(limits: ConnectionLimits) {
    this.limits = limits
  }

  get size(): number {
    return this.bySocket.size
  }

  /** Returns the open connections, the oldest first. */
  all(): Connection[] {
    return [...this.bySocket.values()]
  }

  /** How many responses are not completely sent. */
  get pending(): number {
    return this.all().reduce((sum, { pending }) => sum + pending, 0)
  }

  /** Opens a connection. */
  open(socket: Socket): Connection {
    const connection = new Connection(socket, this.#admitted >= this.limits.maxConnections)
    this.bySocket.set(socket, connection)
    if (!connection.isExcess) this.#admitted++
    return connection
  }

  /** Forgets a connection that has closed. */
  remove(connection: Connection): void {
    if (this.bySocket.delete(connection.socket) && !connection.isExcess) this.#admitted--
  }
}

/**
 * Adds the connections to an application, whose server then emits `rejected`, with a failure that was written without
 * Fastify, its `requestId` and its `client`.
 * Returns two ways to reject a connection: with a failure, and by an error of Node's parser.
 */
export function addConnections(app: FastifyInstance, limits: ConnectionLimits) {
  const { server } = app
  const connections = new Connections(limits)
  app.decorate('connections', connections)

  function reject(socket: Socket, failure: Failure) {
    const requestId = randomUUID()
    connections.bySocket.get(socket)?.refuse(failure, () => {
      socket.write(formatResponse(failure, requestId))
      server.emit('rejected', failure, { requestId, client: socket.remoteAddress })
    })
  }

  function rejectUnreadable(error: ParserError, socket: Socket) {
    // A client that has gone, or has never sent anything, gets no response.
    if (error.code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
    // Bytes after the connection's last request are none.
    else if (error.code !== 'HPE_CLOSED_CONNECTION') reject(socket, toParserFailure(error))
  }

  server.headersTimeout = limits.headersTimeoutMs
  server.maxConnections = limits.maxConnections + spareConnections
  // Without it, a client that half-closes after its request gets no response (docs/decisions.md).
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', (socket: Socket) => {
    // After a socket has closed, Node knows its address only if it was read before.
    void socket.remoteAddress
    const connection = connections.open(socket)
    // For a CONNECT, Node removes its own listener. Without another, a reset would end the process.
    socket.on('error', () => {})
    // Node's parser reports no error in the body of a request to upgrade, not even its missing end.
    socket.on('end', () => connection.isArriving && reject(socket, new Failure('MalformedRequest')))
    socket.once('close', () => {
      connections.remove(connection)
      connection.abandon()
    })
  })
  // After Node's own check of requests, which responds.
  const silenceMs = limits.requestTimeoutMs + 4 * checkEveryMs
  server.setTimeout(silenceMs, (socket: Socket) => onSilence(connections, server, socket))
  app.addHook('preClose', async () => {
    // What has reached the process is accepted and read before it stops listening. Node's own `close` of a server would also
    // end connections whose responses are not sent whole.
    await new Promise(setImmediate)
    TcpServer.prototype.close.call(server)
    await drain(connections, server, (socket) => reject(socket, new Failure('RequestTimeout')))
  })
  return { connections, reject, rejectUnreadable }
}

/** Closes a connection on which nothing has moved for as long as its time-out, unless its client waits for us. */
function onSilence({ bySocket }: Connections, server: FastifyInstance['server'], socket: Socket) {
  const connection = bySocket.get(socket)
  const isOurs = connection && !connection.isWaiting && socket.writableLength === 0
  if (isOurs) socket.setTimeout(server.timeout)
  else socket.destroy()
}

/**
 * Ends the connections of a server that listens no more: idle ones at once, others when their clients have their responses.
 * A request that has begun to arrive has as long as a header may take. Resolves when no connection is left.
 */
async function drain(
  connections: Connections,
  server: FastifyInstance['server'],
  reject: (socket: Socket) => void
) {
  const { headersTimeoutMs, requestTimeoutMs } = connections.limits
  const limitMs = Math.min(headersTimeoutMs, requestTimeoutMs)
  connections.isLeaving = true
  const began = performance.now()
  while (connections.size > 0) {
    const now = performance.now()
    const all = connections.all()
    // Node would also end a connection whose response is not sent whole.
    if (all.every(({ isWaiting }) => isWaiting)) server.closeIdleConnections()
    for (const { socket, isWaiting, isOver, pending, openedAt } of all) {
      if (socket.bytesRead === 0 && now - Math.max(began, openedAt) > lingerMs) socket.destroy()
      // It has its last response, and still sends.
      else if (isOver && pending === 0 && now - began > limitMs + lingerMs) socket.destroy()
      else if (isWaiting && now - began > limitMs) reject(socket)
    }
    await new Promise((resolve) => setTimeout(resolve, checkEveryMs))
  }
}
