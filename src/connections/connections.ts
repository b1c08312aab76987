/** The connections of a server: how many there may be, when they are checked, held back and rejected, and how all end. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure, toResponse } from '../failures/failure.ts'
import { Connection, type ConnectionLimits, type Shared } from './connection.ts'

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
    /** The service is shutting down: it is no longer ready, but still serves. */
    isShuttingDown: boolean
    /**
     * Serves for `delayMs` while balancers notice, then for a second in which every response tells its client that
     * the connection closes. Call `close` afterwards.
     */
    announceShutdown(delayMs: number): Promise<void>
  }
}

/** The open connections, what they share, and which of them are held back. */
type Connections = Map<Socket, Connection> & Shared & ReturnType<typeof createBackpressure>

/** Connections beyond the limit that still get one response: to a probe, or a refusal. */
export const spareConnections = 1_000
/** How long clients learn from their responses that the connections close, in ms. */
export const noticeMs = 1_000

type ParserError = NodeJS.ErrnoException & { reason?: string }

/** Node's error codes that have a failure of their own; all others of its parser are a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}
/** Node's parser has the code HPE_INVALID_VERSION for this, too, such as for a line that ends with a bare LF. */
const noLineEnd = 'Expected CRLF after version'

/** Returns the failure for an error of Node's parser. */
function toParserFailure({ code = '', reason }: ParserError): Failure {
  if (reason !== noLineEnd) return new Failure(byParserCode[code] ?? 'MalformedRequest')
  const message = 'the request line must end with the HTTP version and CRLF'
  return new Failure('MalformedRequest', { message })
}

/**
 * Adds the connections to an application. Its server emits `replied` when a response has been sent or given up, with the
 * reply and whether it was sent, but not for injected requests. It emits `rejected` with a failure that was written
 * without Fastify. Returns two ways to reject a connection: with a failure, and by Node's error.
 */
export function addConnections(app: FastifyInstance, limits: ConnectionLimits) {
  const { server } = app
  const shared: Shared = { ...limits, isClosing: false, hasClosed: false, pending: 0, stalled: 0 }
  const connections: Connections = Object.assign(new Map(), shared, createBackpressure())
  server.headersTimeout = limits.headersTimeoutMs
  server.requestTimeout = limits.requestTimeoutMs
  server.maxConnections = limits.maxConnections + spareConnections
  Object.assign(server, { httpAllowHalfOpen: true }) // a client may half-close, and wait for its responses
  keepBusy(server, connections)

  function onClosed(reply: FastifyReply) {
    const isSent = reply.raw.writableFinished
    if (isSent && reply.request.failure) connections.holdBack(reply.request)
    server.emit('replied', reply, isSent)
  }

  function rejectConnection(socket: Socket, failure: Failure) {
    const requestId = randomUUID()
    connections.get(socket)?.refuse(failure, () => {
      socket.write(writeResponse(failure, requestId))
      app.log.info({ requestId, failure: failure.error, client: socket.remoteAddress }, failure.message)
      server.emit('rejected', failure)
    })
  }

  function rejectUnreadable(error: ParserError, socket: Socket) {
    const { code } = error
    const connection = connections.get(socket)
    // No response for a client that has gone or has never sent anything, nor for bytes after the connection's last request.
    if (code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
    else if (code === 'HPE_CLOSED_CONNECTION') connection?.stopReading()
    else if (code !== 'ERR_HTTP_REQUEST_TIMEOUT' || connection?.isLate(performance.now()))
      rejectConnection(socket, toParserFailure(error))
  }

  function check() {
    // Some got their last response before the shutdown began, but it has been flushed only since.
    if (connections.hasClosed) server.closeIdleConnections()
    const now = performance.now()
    for (const [socket, connection] of connections) {
      const fault = socket.destroyed || connection.check(now)
      if (fault === 'late') rejectConnection(socket, new Failure('RequestTimeout'))
      if (fault === 'stalled') {
        connections.stalled++
        app.log.info({ client: socket.remoteAddress }, 'the client does not read its response: cut off')
      }
    }
  }

  server.once('listening', () => {
    // Checked after the poll phase: what arrived while the process stood still was in time, and is read first.
    const timer = setInterval(setImmediate, 250, check).unref()
    server.once('close', () => clearInterval(timer))
  })
  server.on('connection', (socket: Socket) => {
    // After a socket has closed, Node knows its address only if it was read before.
    void socket.remoteAddress
    const isExcess = connections.size >= limits.maxConnections
    const connection = new Connection(socket, connections, isExcess, onClosed)
    connections.set(socket, connection)
    // Node's parser reports no error in the body of a request to upgrade, not even its missing end.
    socket.on('end', () => connection.isArriving && rejectConnection(socket, new Failure('MalformedRequest')))
    socket.once('close', () => {
      connections.delete(socket)
      connection.close()
    })
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    connections.get(request.socket)?.receive(request, response)
  })

  app.decorate('connections', connections)
  app.decorate('isShuttingDown', false)
  app.decorate('announceShutdown', async (delayMs) => {
    app.isShuttingDown = true
    app.log.info({ delayMs }, 'no longer ready')
    await sleep(delayMs)
    connections.isClosing = true
    // Requests that paused connections have sent get their responses during the notice.
    connections.resumeAll()
    // Without connections, nobody needs the notice.
    if (connections.size > 0) await sleep(noticeMs)
  })
  app.addHook('preClose', (done) => {
    connections.isClosing = connections.hasClosed = true
    done()
  })
  return { rejectConnection, rejectUnreadable }
}

/**
 * How many requests may fail in one turn of the event loop before clients are paused. Few, since libuv ends a turn only
 * when fewer than a thousand connections have something to read: refused clients that send again at once would keep timers,
 * the database's responses and new batches waiting for seconds.
 */
const failuresPerTurn = 32

/** Backpressure: clients whose requests fail are read no faster than they can be refused. */
function createBackpressure() {
  /** Connections whose next request is left unread, in the order in which they resume: `failuresPerTurn` in each turn. */
  const held = new Set<Socket>()
  let failures = 0
  let endsSoon = false

  function endTurnSoon() {
    if (!endsSoon) setImmediate(endTurn)
    endsSoon = true
  }

  function endTurn() {
    endsSoon = false
    failures = 0
    let left = failuresPerTurn
    for (const socket of held) {
      if (left-- === 0) return endTurnSoon()
      resume(socket)
    }
  }

  function holdBack({ raw, connection }: FastifyRequest) {
    endTurnSoon()
    if (++failures <= failuresPerTurn) return
    const hold = () => {
      // A request that has begun to arrive is read to its end, and so is a connection that closes.
      if (!connection?.isIdleAfter(raw)) return
      raw.socket.pause()
      held.add(raw.socket)
      endTurnSoon()
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (raw.complete) hold()
    else raw.once('end', hold)
  }

  function resume(socket: Socket) {
    held.delete(socket)
    socket.resume()
  }

  return {
    held: held as ReadonlySet<Socket>,
    holdBack,
    /** Reads from every client again. */
    resumeAll: () => held.forEach(resume)
  }
}

/**
 * Keeps `server.closeIdleConnections()`, and so `close()`, from destroying connections whose responses are not flushed,
 * or whose client still sends a body that is dropped: Node considers both idle.
 */
function keepBusy(server: Server, connections: Connections) {
  const closeIdleConnections = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    const kept = [...connections].flatMap(([socket, { isBusy }]) => (isBusy ? [socket] : []))
    for (const socket of kept) socket.destroy = () => socket
    closeIdleConnections()
    for (const socket of kept) Reflect.deleteProperty(socket, 'destroy')
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

/** Writes the whole response to a request that Fastify does not see (RFC 9112, section 4). */
function writeResponse(failure: Failure, requestId: string): string {
  const { status, headers, body } = toResponse(failure)
  const fields = {
    'x-request-id': requestId,
    ...responseHeaders,
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    date: new Date().toUTCString(),
    connection: 'close'
  }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} Bad Request\r\n${lines.join('')}\r\n${body}`
}
