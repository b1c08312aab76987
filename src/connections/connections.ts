/** The connections of a server: how many there may be, and what each is checked for while it is open. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure } from '../failures/failure.ts'
import { Connection, type ConnectionLimits } from './connection.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The open connections. */
    connections: Connections
    /** The open connections, and the requests that have no complete response yet. */
    inFlight(): { connections: number; requests: number }
    /** Calls a listener for each response that has been sent, or given up because its connection closed. Not for injected requests. */
    onClosed(listener: ClosedListener): void
    /** Stops reading a connection, and ends it with this failure after the responses that are pending. */
    rejectConnection(socket: Socket, failure: Failure): void
    /** Ends a connection whose bytes Node could not read as a request, or whose client is too slow. */
    rejectUnreadable(error: NodeJS.ErrnoException, socket: Socket): void
    /** Calls a listener for each failure that is written without Fastify. */
    onRejected(listener: (failure: Failure) => void): void
  }
}

/** The open connections, what they share, and how many were cut off because their client took nothing of a response. */
export type Connections = Map<Socket, Connection> & ConnectionLimits & { stalled: number }

type ClosedListener = (reply: FastifyReply, isSent: boolean) => void

/** Limits of a server's connections. */
export interface ConnectionsOptions {
  /** How long a request's header may take to arrive, or the first byte of a body, in ms. */
  headersTimeoutMs: number
  /** How long a whole request may take to arrive, and how long a client may take nothing of a response, in ms. */
  requestTimeoutMs: number
  /** How many connections are served. Some more get one response and are closed; any beyond are closed at once. */
  maxConnections: number
}

/** Connections beyond the limit that still get one response: to a probe, or a refusal. */
const spareConnections = 1_000
/** How many requests may wait for their responses on all connections together, besides the first of each. */
const sparePending = 4_096
const checkMs = 250

/** Node's error codes that have a failure of their own; all others of its parser are a malformed request. */
const byParserCode: Record<string, FailureName> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'RequestTimeout',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'BodyTooLarge',
  HPE_HEADER_OVERFLOW: 'HeadersTooLarge',
  HPE_INVALID_VERSION: 'VersionNotSupported',
  HPE_PAUSED_H2_UPGRADE: 'VersionNotSupported'
}

export default fp<ConnectionsOptions>(
  async (app, { headersTimeoutMs, requestTimeoutMs, maxConnections }) => {
    const { server } = app
    const listeners: ClosedListener[] = []
    const rejectedListeners: ((failure: Failure) => void)[] = []
    const limits = { headersTimeoutMs, requestTimeoutMs, isClosing: false, hasClosed: false, sparePending }
    const connections: Connections = Object.assign(new Map(), { ...limits, stalled: 0 })
    server.headersTimeout = headersTimeoutMs
    server.requestTimeout = requestTimeoutMs
    server.maxConnections = maxConnections + spareConnections
    Object.assign(server, { httpAllowHalfOpen: true }) // a client may half-close, and wait for its responses

    function onClosed(reply: FastifyReply) {
      const isSent = reply.raw.writableFinished
      for (const listener of listeners) listener(reply, isSent)
    }

    function check() {
      // Some got their last response before the shutdown began, and have been flushed since.
      if (connections.hasClosed) server.closeIdleConnections()
      const now = performance.now()
      for (const [socket, connection] of connections) {
        const fault = socket.destroyed || connection.check(now)
        if (fault === 'late') app.rejectConnection(socket, new Failure('RequestTimeout'))
        if (fault === 'stalled') {
          connections.stalled++
          app.log.info({ client: socket.remoteAddress }, 'the client takes nothing of its response: cut off')
        }
      }
    }

    server.once('listening', () => {
      // Checked after the poll phase: what arrived while the process stood still is read first, and was in time.
      const timer = setInterval(setImmediate, checkMs, check).unref()
      server.once('close', () => clearInterval(timer))
    })
    server.on('connection', (socket: Socket) => {
      // After a socket has closed, Node knows its address only if it was read before.
      void socket.remoteAddress
      const connection = new Connection(socket, connections, connections.size >= maxConnections, onClosed)
      connections.set(socket, connection)
      socket.once('close', () => {
        connections.delete(socket)
        connection.close()
      })
    })
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      connections.get(request.socket)?.receive(request, response)
    })

    app.decorate('connections', connections)
    app.decorate('onClosed', (listener) => void listeners.push(listener))
    app.decorate('onRejected', (listener) => void rejectedListeners.push(listener))
    app.decorate('inFlight', () => {
      let requests = 0
      for (const { pending } of connections.values()) requests += pending
      return { connections: connections.size, requests }
    })
    app.decorate('rejectConnection', (socket, failure) => {
      const requestId = randomUUID()
      connections.get(socket)?.refuse(failure, requestId, () => {
        app.log.info({ requestId, failure: failure.error, client: socket.remoteAddress }, failure.message)
        for (const listener of rejectedListeners) listener(failure)
      })
    })
    app.decorate('rejectUnreadable', ({ code = '' }, socket) => {
      const connection = connections.get(socket)
      const isTimeout = code === 'ERR_HTTP_REQUEST_TIMEOUT'
      // No response for a client that has gone or has never sent anything, nor for bytes after a request that closes.
      if (code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
      else if (code === 'HPE_CLOSED_CONNECTION') connection?.stopReading()
      else if (!isTimeout || connection?.isLate(performance.now()))
        app.rejectConnection(socket, new Failure(byParserCode[code] ?? 'MalformedRequest'))
    })
  },
  { name: 'connections' }
)
