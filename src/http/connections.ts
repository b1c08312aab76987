/** The connections of clients: what each is owed, and how it ends. By Node's public means alone. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { createServer, METHODS } from 'node:http'
import { type Socket, Server as TcpServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { Failure, type FailureName, toResponse } from '../failures.ts'
import { checkCoding, maximumFields } from './head.ts'
import { jsonType } from './json.ts'

/** How often Node and the shutdown look for clients that are late. */
const checkEveryMs = 250
/** How long the client of an ended connection has to close it. */
const lingerMs = 3_000

/** An open connection. */
export class Connection {
  /** The responses that are not complete. */
  readonly responses = new Set<ServerResponse>()
  /** What cut its newest request off while the body arrived: the rest of it does not come. */
  cutOffBy: Failure | undefined = undefined
  readonly #socket: Socket
  readonly #server: Server
  /** No further request of it is answered. */
  #isOver = false
  /** The request that came last. */
  #newest: IncomingMessage | undefined = undefined

  constructor(socket: Socket, server: Server) {
    this.#socket = socket
    this.#server = server
    // After a socket has closed, Node knows its address only if it was read before.
    void socket.remoteAddress
    // For a CONNECT, Node removes its own listener. Without another, a reset would end the process.
    socket.on('error', () => {})
    // Node's parser reports no error in the body of a request to upgrade, not even its missing end.
    socket.on('end', () => this.#isArriving && this.refuse(new Failure('MalformedRequest')))
    // After a CONNECT, Node drops queued responses. Destroy them, so that their `close` event fires.
    socket.on('close', () => {
      for (const response of this.responses) response.destroy()
    })
  }

  /** The request that came last; undefined if something unreadable has followed it. */
  get newest(): IncomingMessage | undefined {
    return this.#newest
  }

  /** Whether no further request is answered. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Whether the client has half-closed, and so sends nothing more. */
  get isHalfClosed(): boolean {
    return this.#socket.readableEnded
  }

  /** The body of its newest request is still arriving. */
  get #isArriving(): boolean {
    return this.#newest?.complete === false
  }

  /** Records a request. Returns false for one behind the connection's last, which is none (RFC 9112, section 9.6). */
  receive(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#isOver || this.#socket.destroyed) return false
    this.#newest = request
    // What follows such a request is no request, or Node drops it.
    const isLast = !response.shouldKeepAlive || request.headers.upgrade !== undefined
    this.#isOver = isLast || checkCoding(request) !== undefined
    response.once('close', () => {
      this.responses.delete(response)
      if (this.#isOver) this.#finish()
    })
    this.responses.add(response)
    return true
  }

  /** Makes the response to the newest request the last one. */
  acceptNoMore(): void {
    this.#isOver = true
  }

  /**
   * Refuses what cannot be read any further. The requests that have arrived get their responses first, in order. For an
   * incomplete one Fastify sends the failure; otherwise it is written here.
   */
  refuse(failure: Failure): void {
    if (this.#isOver && !this.#isArriving) return
    this.#isOver = true
    if (this.#isArriving) {
      this.cutOffBy = failure
      // Its response may have been sent: then there is none to come.
      this.#newest?.emit('error', failure)
    } else {
      // No response to a request is the last.
      this.#newest = undefined
      const write = () => {
        if (!this.#socket.writable) return
        const requestId = randomUUID()
        this.#socket.write(formatResponse(failure, requestId))
        this.#server.emit('rejected', failure, { requestId, client: this.#socket.remoteAddress })
      }
      const last = [...this.responses].at(-1)
      // Before Node's own listener, which ends the socket of a client that has half-closed.
      if (last) last.prependOnceListener('finish', write)
      else write()
    }
    this.#finish()
  }

  /**
   * Half-closes when nothing is pending. What still comes is read and dropped for a while: a socket that is closed with unread
   * bytes is reset, and its client can lose the response.
   */
  #finish() {
    const socket = this.#socket
    if (this.responses.size > 0 || socket.destroyed || socket.writableEnded) return
    socket.end()
    socket.resume()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }
}

/** The open connections of a server, which emits `rejected` with a failure that was written without Fastify, and its origin. */
export class Connections extends Map<Socket, Connection> {
  /** Each response ends its connection, as far as its request has arrived. */
  isLeaving = false

  /** How many responses are not completely sent. */
  get pending(): number {
    return [...this.values()].reduce((sum, { responses }) => sum + responses.size, 0)
  }

  /** Makes the server, which passes on to `handle` what Node would respond to by itself, too. */
  createServer(
    handle: RequestListener,
    { maxConnections, ...timeouts }: Config['connectionLimits']
  ): Server {
    const options = { requireHostHeader: false, connectionsCheckingInterval: checkEveryMs }
    const server = createServer({ ...options, ...timeouts })
    server.maxConnections = maxConnections
    // Node silently drops the fields beyond this count, perhaps the token. One more than the limit is kept, so that too
    // many are noticed.
    server.maxHeadersCount = maximumFields + 1
    // Without it, a client that half-closes after its request gets no response (docs/decisions.md).
    Object.assign(server, { httpAllowHalfOpen: true })
    server.on('connection', (socket: Socket) => {
      this.set(socket, new Connection(socket, server))
      socket.on('close', () => this.delete(socket))
    })
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.on(event, (request: IncomingMessage, response: ServerResponse) => {
        // A client that resets while its body arrives.
        request.on('error', () => {})
        // Node's parser knows methods of RTSP, too, to which Fastify does not respond. No route has UNLINK.
        if (!METHODS.includes(request.method as string)) request.method = 'UNLINK'
        if (this.get(request.socket)?.receive(request, response)) handle(request, response)
        else request.resume()
      })
    return server
  }

  /** Refuses what Node's parser cannot read, or what did not arrive in time. */
  refuseUnreadable(error: ParserError, socket: Socket): void {
    // A client that has never sent anything gets no response.
    if (socket.bytesRead === 0) socket.destroy()
    else this.get(socket)?.refuse(toParserFailure(error))
  }

  /**
   * Stops listening, and ends idle connections at once, others when their clients have their responses. A request that has
   * begun to arrive has as long as a header may take. Resolves when no connection is left.
   */
  async drain(server: Server): Promise<void> {
    this.isLeaving = true
    // What has reached the process is accepted and read before it stops listening. Node's own `close` of an HTTP server would
    // also end connections whose responses are not sent whole, and look for late clients no more.
    for (const socket of this.keys()) socket.resume()
    await new Promise(setImmediate)
    TcpServer.prototype.close.call(server)
    // From now on, not from the beginning of a request: then Node's next look ends all that are incomplete.
    setTimeout(() => Object.assign(server, { requestTimeout: 1 }), server.headersTimeout).unref()
    for (; this.size > 0; await sleep(checkEveryMs))
      // Node would take one that has a response to send for idle.
      if (this.pending === 0) server.closeIdleConnections()
  }
}

/**
 * The header fields of every response, besides its request's id: it must not be cached, has the type that it claims, and
 * may load and run nothing if a browser shows it as a page. Fields about TLS are the balancer's.
 */
export const responseHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff'
}

/** An error of Node's parser. */
type ParserError = NodeJS.ErrnoException & { reason?: string }

/** The parser's error codes that have a failure of their own. All others mean a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}
/** The reason of an error whose code is HPE_INVALID_VERSION as well, although the line end is at fault, such as a bare LF. */
const noLineEnd = 'Expected CRLF after version'

/** Returns the failure for an error of Node's parser. */
function toParserFailure({ code = '', reason }: ParserError): Failure {
  if (reason !== noLineEnd) return new Failure(byParserCode[code] ?? 'MalformedRequest')
  const message = 'the request line must end with the HTTP version and CRLF'
  return new Failure('MalformedRequest', { message })
}

/** Returns the whole response to a request that Fastify does not see (RFC 9112, section 4). */
function formatResponse(failure: Failure, requestId: string): string {
  const { status, headers, body } = toResponse(failure)
  const headerFields = {
    'x-request-id': requestId,
    ...responseHeaders,
    ...headers,
    'content-type': jsonType,
    'content-length': Buffer.byteLength(body),
    date: new Date().toUTCString(),
    connection: 'close'
  }
  const lines = Object.entries(headerFields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Bad Request\r\n${lines.join('')}\r\n${body}`
}
