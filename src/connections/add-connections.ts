/** Adds the connections of a server to its application: how each is accepted, refused and reported. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { formatResponse, type ParserError, toParserFailure } from '../failures/raw-response.ts'
import { startChecks } from './checks.ts'
import { Connection, type Observer } from './connection.ts'
import { type ConnectionLimits, Connections } from './connections.ts'
import { allowHalfOpen } from './internals.ts'
import { spareConnections } from './room.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The open connections of its server. */
    connections: Connections
  }
}

/**
 * Adds the connections to an application, whose server then emits
 * - `replied` with a reply that was sent or given up, and whether it was sent; not for injected requests;
 * - `rejected` with a failure that was written without Fastify, its `requestId` and its `client`;
 * - `stalled` with the address of a client that was cut off because it took nothing of its responses, or because
 *   the kernel held most for it.
 * Returns two ways to reject a connection: with a failure, and by Node's error.
 */
export function addConnections(app: FastifyInstance, limits: ConnectionLimits) {
  const { server } = app
  const connections = new Connections(limits)
  const observer: Observer = {
    onBusy: (connection) => connections.room.markBusy(connection),
    onChanged: (connection) => connections.room.place(connection),
    onReplyClosed: (reply) => reportReply(app, reply)
  }
  // `startChecks` enforces these limits. Node would measure other times, and respond by itself.
  server.headersTimeout = server.requestTimeout = 0
  server.keepAliveTimeout = limits.keepAliveTimeout
  // Never reached, since connections beyond the room are evicted: Node closes further ones without a word.
  server.maxConnections = limits.maxConnections + 2 * spareConnections
  server.closeIdleConnections = () => connections.finishIdle()
  allowHalfOpen(server)

  function rejectConnection(socket: Socket, failure: Failure) {
    const requestId = randomUUID()
    connections.bySocket.get(socket)?.refuse(failure, () => {
      socket.write(formatResponse(failure, requestId))
      server.emit('rejected', failure, { requestId, client: socket.remoteAddress })
    })
  }

  function rejectUnreadable(error: ParserError, socket: Socket) {
    const { code } = error
    // A client that has gone or has never sent anything gets no response, nor do bytes after the connection's last request.
    if (code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
    else if (code === 'HPE_CLOSED_CONNECTION') connections.bySocket.get(socket)?.stopReading()
    else rejectConnection(socket, toParserFailure(error))
  }

  server.once('listening', () => {
    const stopChecks = startChecks(server, connections, rejectConnection)
    server.once('close', stopChecks)
  })
  server.on('connection', (socket: Socket) => {
    // After a socket has closed, Node knows its address only if it was read before.
    void socket.remoteAddress
    // This may evict another connection.
    const isExcess = !connections.room.makeRoom()
    const connection = new Connection(socket, connections.state, isExcess, observer)
    connections.bySocket.set(socket, connection)
    connections.room.add(connection)
    connections.backpressure.recordAccepted()
    // Node's parser reports no error in the body of a request to upgrade, not even its missing end.
    socket.on('end', () => connection.isArriving && rejectConnection(socket, new Failure('MalformedRequest')))
    socket.once('close', () => {
      connections.bySocket.delete(socket)
      connections.room.remove(connection)
      connections.backpressure.remove(connection)
      connection.onSocketClosed()
    })
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    connections.bySocket.get(request.socket)?.receive(request, response)
  })
  app.decorate('connections', connections)
  app.addHook('preClose', (done) => {
    connections.beginStopping()
    // After the poll phase: what has reached the process is accepted and read before the server stops listening.
    setImmediate(done)
  })
  return { rejectConnection, rejectUnreadable }
}

/** Reports a reply that was sent or given up to backpressure and to those who measure. */
function reportReply({ connections, server }: FastifyInstance, reply: FastifyReply) {
  const { failure, operation } = reply.request
  const isSent = reply.raw.writableFinished
  if (isSent && (failure || !operation)) connections.backpressure.recordResponse(reply)
  server.emit('replied', reply, isSent)
}
