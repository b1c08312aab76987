/**
 * The connections of clients: which responses each of them waits for, and how it ends. This uses
 * only Node's public interface. The main comment of bare-app.ts has a connection's states.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { createServer, METHODS } from 'node:http'
import { type Socket, Server as TcpServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import { Failure, type FailureName, toResponse } from '../failures.ts'
import { checkCoding, maximumFields } from './head.ts'
import { jsonType } from './json.ts'

/**
 * How often Node looks for requests that take too long to arrive, and the shutdown for idle
 * connections.
 */
const checkEveryMs = 250
/** How long a client has to close its side after the server has half-closed. */
const lingerMs = 3_000

const ignore = () => {}

/** An open connection. */
export class Connection {
  /** The responses that are not completely sent. */
  readonly responses = new Set<ServerResponse>()
  /**
   * The failure that cut off the newest request while its body arrived. The rest of the body will
   * not come.
   */
  cutOffBy: Failure | undefined = undefined
  readonly #socket: Socket
  readonly #server: Server
  #isOver = false
  #newest: IncomingMessage | undefined = undefined

  constructor(socket: Socket, server: Server) {
    this.#socket = socket
    this.#server = server
    // Node can tell the address of a closed socket only if it was read before.
    void socket.remoteAddress
    // For a CONNECT, Node removes its own listener. Without any, a reset would end the process.
    socket.on('error', ignore)
    // Node's parser reports no error in the body of a request to upgrade, not even that its end is
    // missing.
    socket.on('end', () => this.#isArriving && this.refuse(new Failure('MalformedRequest')))
    // After a CONNECT, Node drops queued responses. Destroy them, so that their `close` event
    // fires.
    socket.on('close', () => {
      for (const response of this.responses) response.destroy()
    })
  }

  /**
   * The request that was read last; undefined if something that could not be read came after it.
   */
  get newest(): IncomingMessage | undefined {
    return this.#newest
  }

  /** Whether no further request on this connection is answered. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Whether the client has half-closed: it sends nothing more. */
  get isHalfClosed(): boolean {
    return this.#socket.readableEnded
  }

  /** Whether the body of the newest request is still arriving. */
  get #isArriving(): boolean {
    return this.#newest?.complete === false
  }

  /**
   * Records a request. Returns false if the connection is over: what follows the last request of a
   * connection is not a request (RFC 9112, section 9.6).
   */
  receive(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#isOver || this.#socket.destroyed) return false
    this.#newest = request
    // After `Connection: close`, Node drops what follows. After an `Upgrade`, what follows is in
    // the other protocol.
    const isLast = !response.shouldKeepAlive || request.headers.upgrade !== undefined
    this.#isOver = isLast || checkCoding(request) !== undefined
    response.on('close', () => {
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
   * Refuses input that cannot be read any further. Requests that were read before get their
   * responses first, in order. If the body of the newest request was arriving, that request fails,
   * and Fastify sends the failure. Otherwise it is written here.
   */
  refuse(failure: Failure): void {
    if (this.#isOver && !this.#isArriving) return
    this.#isOver = true
    if (this.#isArriving) {
      this.cutOffBy = failure
      // This fails a read of the body in progress. If the response was sent already, nothing reads
      // the body, and the client gets no second response.
      this.#newest?.emit('error', failure)
    } else {
      // From now on, the last response is the one that is written here, not one to a request.
      this.#newest = undefined
      const write = () => {
        if (!this.#socket.writable) return
        const requestId = randomUUID()
        this.#socket.write(formatResponse(failure, requestId))
        this.#server.emit('rejected', failure, { requestId, client: this.#socket.remoteAddress })
      }
      const last = [...this.responses].at(-1)
      // Write before Node's own listener runs: it ends the socket of a client that has half-closed.
      if (last) last.prependOnceListener('finish', write)
      else write()
    }
    this.#finish()
  }

  /**
   * Half-closes the connection when no response is due any more. For a while, it reads and drops
   * what the client still sends. If the connection closed with unread bytes, the client would get a
   * reset, and could lose the response.
   */
  #finish() {
    const socket = this.#socket
    if (this.responses.size > 0 || socket.destroyed || socket.writableEnded) return
    socket.end()
    socket.resume()
    setTimeout(() => socket.destroy(), lingerMs).unref()
  }
}

/**
 * The open connections of a server. The server emits `rejected` for each failure that was written
 * without Fastify, with the failure and the client that it went to.
 */
export class Connections extends Map<Socket, Connection> {
  /**
   * The server is shutting down: each response is the last one on its connection, once the whole
   * body of its request has arrived.
   */
  isLeaving = false

  /** How many responses, on all connections, are not completely sent. */
  get pending(): number {
    return [...this.values()].reduce((sum, { responses }) => sum + responses.size, 0)
  }

  /**
   * Makes the server. It also passes to `handle` the requests that Node would respond to by itself.
   */
  createServer(
    handle: RequestListener,
    { maxConnections, ...timeouts }: Config['connectionLimits']
  ): Server {
    const options = { requireHostHeader: false, connectionsCheckingInterval: checkEveryMs }
    const server = createServer({ ...options, ...timeouts })
    server.maxConnections = maxConnections
    // Node silently drops header fields beyond this count, and the token could be among them. It
    // keeps one more than the limit, so that `checkHead` can see that there are too many.
    server.maxHeadersCount = maximumFields + 1
    // Without this, a client that half-closes after its request would get no response
    // (docs/decisions.md).
    Object.assign(server, { httpAllowHalfOpen: true })
    server.on('connection', (socket: Socket) => {
      this.set(socket, new Connection(socket, server))
      socket.on('close', () => this.delete(socket))
    })
    for (const event of ['request', 'checkContinue', 'checkExpectation'])
      server.on(event, (request: IncomingMessage, response: ServerResponse) => {
        // A request emits an error when it is cut off, or when its client resets the connection.
        // Without a listener, the error could end the process.
        request.on('error', ignore)
        // Node's parser also accepts methods of RTSP, to which Fastify does not respond. UNLINK is
        // a method that no route has, so that the request is rejected.
        if (!METHODS.includes(request.method as string)) request.method = 'UNLINK'
        if (this.get(request.socket)?.receive(request, response)) handle(request, response)
        else request.resume()
      })
    return server
  }

  /** Refuses input that Node's parser cannot read, or that did not arrive in time. */
  refuseUnreadable(error: ParserError, socket: Socket): void {
    // A client that has sent nothing is not waiting for a response.
    if (socket.bytesRead === 0) socket.destroy()
    else this.get(socket)?.refuse(toParserFailure(error))
  }

  /**
   * Stops listening. Ends idle connections at once, and the others when their clients have their
   * responses. A request that has begun to arrive may take as long as a header may. Resolves when
   * no connection is left.
   */
  async drain(server: Server): Promise<void> {
    this.isLeaving = true
    // Accept and read what has reached the process before it stops listening. Node's own `close` of
    // an HTTP server does not fit: it also ends connections whose responses are not completely
    // sent, and stops looking for requests that take too long.
    // Connections that wait for their turn (bare-app.ts) are paused.
    for (const socket of this.keys()) socket.resume()
    await new Promise(setImmediate)
    TcpServer.prototype.close.call(server)
    // The time counts from now on, and not from the start of each request. When it has passed,
    // Node's next look ends all requests that are still incomplete.
    setTimeout(() => Object.assign(server, { requestTimeout: 1 }), server.headersTimeout).unref()
    for (; this.size > 0; await sleep(checkEveryMs))
      // While a response is due, Node may take its connection for an idle one.
      if (this.pending === 0) server.closeIdleConnections()
  }
}

/**
 * The header fields of every response, except its request's id. They say that the response must not
 * be cached, that its type is the declared one, and that it may load and run nothing if a browser
 * shows it as a page. Header fields about TLS are the load balancer's part.
 */
export const responseHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff'
}

/** An error that Node's parser reports. */
type ParserError = NodeJS.ErrnoException & { reason?: string }

/** The failures for some error codes of the parser. All other codes mean a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}
/**
 * The parser reports this reason with HPE_INVALID_VERSION, too, although the end of the line is
 * wrong: it is a bare LF, for example.
 */
const noLineEnd = 'Expected CRLF after version'

/** Returns the failure for an error of Node's parser. */
function toParserFailure({ code = '', reason }: ParserError): Failure {
  if (reason !== noLineEnd) return new Failure(byParserCode[code] ?? 'MalformedRequest')
  const message = 'the request line must end with the HTTP version and CRLF'
  return new Failure('MalformedRequest', { message })
}

/**
 * Returns the text of a whole response, for input that Fastify does not see (RFC 9112, section 4).
 */
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
