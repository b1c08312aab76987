/** HTTP below the routes: every connection, and every request's header. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { keepUnflushed } from './closing.ts'
import type { Connection, Connections } from './connection.ts'
import { trackConnections } from './connections.ts'
import { awaits100, checkHead } from './header-rules.ts'
import { toProtocolFailure, writeRawResponse } from './raw-response.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Its connection; undefined for what was injected. */
    connection: Connection | undefined
  }
  interface FastifyInstance {
    /** The open connections. */
    connections: Connections
    /** The open connections, and the requests that have no complete response yet. */
    inFlight(): { connections: number; requests: number }
    /** Calls a listener for each response that is over: sent, or given up because its connection has closed before. What is injected has no end. */
    onClosed(listener: ClosedListener): void
    /** Reads a connection no further, and ends it with this failure behind the responses that it is owed. */
    rejectConnection(socket: Socket, failure: Failure): void
    /** Ends a connection whose bytes Node could not read as a request, or whose client is too slow. */
    rejectUnreadable(error: NodeJS.ErrnoException, socket: Socket): void
  }
}

type ClosedListener = (reply: FastifyReply, isSent: boolean) => void

interface Options {
  /** How long a request's header may take to arrive, in ms. */
  headersTimeoutMs: number
  /** How long a whole request may take to arrive, in ms. */
  requestTimeoutMs: number
  /** How many connections are served; some more get one response and are closed, and those beyond are closed at once. */
  maxConnections: number
  /** Called for each failure that is written without Fastify. */
  onRejected?: (failure: Failure) => void
}

const methods = new Set(METHODS)
const ignore = () => {}

/** For probes, and for the responses to those who are refused. */
const spareConnections = 1_000

export default fp<Options>(
  async (app, { headersTimeoutMs, requestTimeoutMs, maxConnections, onRejected }) => {
    const { server } = app
    const listeners: ClosedListener[] = []
    const connections = trackConnections(server, requestTimeoutMs, maxConnections, (reply) => {
      const isSent = reply.raw.writableFinished
      for (const listener of listeners) listener(reply, isSent)
    })
    keepUnflushed(server, connections)
    server.headersTimeout = headersTimeoutMs
    server.requestTimeout = requestTimeoutMs
    server.maxConnections = maxConnections + spareConnections
    server.maxHeadersCount = 0 // they are bounded in size; a count would drop fields, the token among them
    Object.assign(server, { httpAllowHalfOpen: true }) // a client may say that it sends no more, and wait

    app.decorate('connections', connections)
    app.decorate('onClosed', (listener) => void listeners.push(listener))
    app.decorate('inFlight', () => {
      let requests = 0
      for (const { pendingResponses } of connections.values()) requests += pendingResponses.size
      return { connections: connections.size, requests }
    })
    app.decorate('rejectConnection', (socket, failure) => {
      const connection = connections.get(socket)
      if (connection === undefined || connection.isOver) return
      const requestId = randomUUID()
      writeRawResponse(socket, connection, failure, requestId, () => {
        app.log.info({ requestId, failure: failure.error, client: socket.remoteAddress }, failure.message)
        onRejected?.(failure)
      })
    })
    app.decorate('rejectUnreadable', (error, socket) => {
      const connection = connections.get(socket)
      // A client that has gone, or that never spoke, is owed no response; nor is what follows a request that closes.
      if (error.code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
      else if (error.code !== 'HPE_CLOSED_CONNECTION') app.rejectConnection(socket, toProtocolFailure(error))
      else if (connection !== undefined) connection.isOver = true
    })

    server.prependListener('request', (request: IncomingMessage) => {
      request.on('error', ignore)
      // The parser knows methods of HTTP/2 and RTSP, too. Behind PRI Node would destroy the connection and all that it
      // owes, and for the others Fastify has no response.
      if (!methods.has(request.method as string)) request.method = 'UNLINK'
    })
    // Both are judged later, in their turn; Node would respond at once.
    server.on('checkContinue', (request, response) => server.emit('request', request, response))
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (_, socket: Socket) => {
      socket.resume()
      app.rejectConnection(socket, new Failure('MethodNotAllowed', { headers: { allow: 'POST' } }))
    })

    app.decorateRequest('connection', undefined)
    app.addHook('onRequest', (request, reply, done) => {
      // A request behind the last response of its connection is owed none, and must not be carried out.
      const { socket } = request.raw
      const connection = connections.get(socket)
      const isOwed = connection?.pendingResponses.has(reply.raw) ?? true
      if (!isOwed || socket.destroyed || socket.writableEnded) {
        reply.hijack()
        return
      }
      request.connection = connection
      connection?.pendingResponses.set(reply.raw, reply)
      done(checkHead(request.raw))
    })
    app.addHook('preParsing', ({ raw, connection }, reply, _, done) => {
      const failure = connection?.newest === raw ? connection.newestFailure : undefined
      if (failure === undefined && awaits100(raw)) inviteBody(reply.raw)
      done(failure)
    })
  },
  { name: 'protocol' }
)

/** Sends 100 (RFC 9110, section 10.1.1) in its turn: Node would put it in the midst of a response that has to wait. */
function inviteBody(response: ServerResponse) {
  if (response.socket !== null) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}
