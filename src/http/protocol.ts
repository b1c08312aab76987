/** HTTP below the routes: every connection, and every request's header. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failures.ts'
import { keepUnflushed, watchClosing } from './closing.ts'
import { type Connections, trackConnections } from './connections.ts'
import { checkHead, isFramingFaulty } from './header-rules.ts'
import { type BrokenRequests, refuse, toProtocolFailure } from './raw-response.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Answers what Node could not read as a request. */
    rejectUnreadable(error: NodeJS.ErrnoException, socket: Socket): void
    /** The open connections. */
    connections: Connections
    /** From now on every response is the last on its connection, and says so. */
    endConnections(): void
  }
}

interface Options {
  /** How long a request's header may take to arrive, in ms. */
  headersTimeoutMs: number
  /** How long a whole request may take to arrive, in ms. */
  requestTimeoutMs: number
  /** How many connections are served; some more are answered once and closed, and those beyond are closed at once. */
  maxConnections: number
  /** Called for each failure that is answered without Fastify. */
  onRefused?: (failure: Failure) => void
}

/** For probes, and for the answers to those who are refused. */
const spareConnections = 1_000

export default fp<Options>(
  async (app, { headersTimeoutMs, requestTimeoutMs, maxConnections, onRefused }) => {
    const { server } = app
    const connections = trackConnections(server, requestTimeoutMs, maxConnections)
    keepUnflushed(server, connections)
    const broken: BrokenRequests = new WeakMap()
    let isClosing = false

    function end(socket: Socket, failure: Failure) {
      const connection = connections.get(socket)
      if (connection === undefined || connection.isOver) return
      const requestId = randomUUID()
      refuse(socket, connection, failure, broken, requestId, () => {
        app.log.info({ requestId, failure: failure.error, client: socket.remoteAddress }, failure.message)
        onRefused?.(failure)
      })
    }

    server.headersTimeout = headersTimeoutMs
    server.requestTimeout = requestTimeoutMs
    server.maxConnections = maxConnections + spareConnections
    server.maxHeadersCount = 0 // they are bounded in size; a count would drop fields, the token among them
    Object.assign(server, { httpAllowHalfOpen: true }) // a client may say that it sends no more, and wait
    server.prependListener('request', (request: IncomingMessage) => {
      request.on('error', () => {})
      // The parser knows methods of HTTP/2 and RTSP, too. Behind PRI Node would destroy the connection and all that it
      // owes, and for the others Fastify has no response.
      if (!METHODS.includes(request.method as string)) request.method = 'UNLINK'
    })
    // Both are judged later, in their turn; Node would answer them at once.
    server.on('checkContinue', (request, response) => server.emit('request', request, response))
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (_, socket: Socket) => {
      socket.resume()
      end(socket, new Failure('MethodNotAllowed', { headers: { allow: 'POST' } }))
    })
    app.decorate('connections', connections)
    app.decorate('endConnections', () => {
      isClosing = true
    })
    app.decorate('rejectUnreadable', (error, socket) => {
      // A client that has gone, or that never spoke, is owed no response; nor is what follows a request that closes.
      const connection = connections.get(socket)
      if (error.code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
      else if (error.code !== 'HPE_CLOSED_CONNECTION') end(socket, toProtocolFailure(error))
      else if (connection !== undefined) connection.isOver = true
    })

    app.addHook('onRequest', (request, reply, done) => {
      // A request behind the last response of its connection is owed none, and must not be carried out.
      const { socket } = request.raw
      const isOwed = connections.get(socket)?.pendingResponses.has(reply.raw) ?? true
      if (!isOwed || socket.destroyed || socket.writableEnded) reply.hijack()
      else done(checkHead(request.raw))
    })
    app.addHook('preParsing', (request, reply, _, done) => {
      const failure = broken.get(request.raw)
      if (failure === undefined && awaits100(request.raw)) inviteBody(reply.raw)
      done(failure)
    })
    app.addHook('onSend', (request, reply, payload, done) => {
      const { raw } = request
      const connection = connections.get(raw.socket)
      const isNewest = connection?.newest === raw && !connection.owesFailure
      const isLast = isClosing || connection?.isExcess || raw.socket.readableEnded || isFramingFaulty(raw)
      const isUninvited = awaits100(raw) && !raw.complete // whether its body comes is the client's choice
      if (broken.has(raw) || (isNewest && (isLast || isUninvited))) {
        reply.header('connection', 'close')
        if (connection !== undefined) connection.isOver = true
      }
      // Node closes behind a body that came without its 100, with the responses behind this one unsent.
      else if (awaits100(raw) && reply.raw.shouldKeepAlive) reply.header('connection', 'keep-alive')
      // Fastify closes behind a refused body, which may reset the connection, and while it closes itself, which would
      // cut off the responses behind this one. The rest of the body is read and dropped instead.
      else if (reply.hasHeader('connection') || isClosing) reply.removeHeader('connection')
      done(null, payload)
    })

    app.addHook('preClose', (done) => {
      app.endConnections()
      watchClosing(server, connections, headersTimeoutMs, (socket) =>
        end(socket, new Failure('RequestTimeout'))
      )
      done()
    })
  },
  { name: 'protocol', dependencies: ['error-handler'] }
)

/** Tells whether a client may wait for 100 before it sends its body; of HTTP/1.0 that must be ignored. */
function awaits100({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1'
}

/** Sends 100 (RFC 9110, section 10.1.1) in its turn: Node would put it in the midst of a response that has to wait. */
function inviteBody(response: ServerResponse) {
  if (response.socket !== null) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}
