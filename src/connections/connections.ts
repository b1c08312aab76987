/** The connections of a server: how each is accepted, checked, refused and, when the service closes, ended. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Failure } from '../failures/failure.ts'
import { formatResponse, type ParserError, toParserFailure } from '../failures/raw-response.ts'
import { Backpressure } from './backpressure.ts'
import { Connection, type Observer } from './connection.ts'
import { allowHalfOpen, reset } from './internals.ts'
import type { Shared, TimeLimits } from './patience.ts'
import { Room, spareConnections } from './room.ts'
import { askKernel, findGreedy, mayExceedBound } from './send-queues.ts'

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
  }
}

/** Limits of a server's connections, as the settings have them. */
export interface ConnectionLimits extends TimeLimits {
  /** Some more get one response and are closed. */
  readonly maxConnections: number
}

const checkEveryMs = 250
/** How often the kernel is asked within the time limit of a client that takes nothing. */
const questionsPerLimit = 8
/** After a question to the kernel, it is left alone for this many times as long as the answer took, and for so long at most. */
const restsPerQuestion = 9
const longestRestMs = 1_000

/** The open connections of a server, and what they share. */
export class Connections {
  readonly bySocket = new Map<Socket, Connection>()
  readonly shared: Shared
  readonly room: Room
  readonly backpressure = new Backpressure()
  /** The server has stopped listening: each connection ends when its client has all its responses. */
  hasClosed = false
  /** Bytes that the kernel holds of the connections that it was asked for last. */
  heldByKernel = 0
  /** How many connections were cut off because their client did not read a response. */
  stalled = 0

  constructor({ maxConnections, ...limits }: ConnectionLimits) {
    this.shared = { ...limits, isClosing: false, pending: 0 }
    this.room = new Room(maxConnections)
  }

  get size(): number {
    return this.bySocket.size
  }

  /** How many responses are not completely sent. */
  get pending(): number {
    return this.shared.pending
  }

  /** Returns the open connections. */
  all(): Connection[] {
    return [...this.bySocket.values()]
  }

  /** Makes the next response of each connection its last, for a connection of now at a time of its own within `ms`. */
  leaveWithin(ms: number): void {
    const now = performance.now()
    for (const connection of this.all()) connection.leaveAt(now + Math.random() * ms)
  }

  /** Makes the next request of each connection its last. Those that paused connections have sent are read. */
  beginClosing(): void {
    this.shared.isClosing = true
    this.backpressure.resumeAll()
  }

  /** Half-closes the connections that are idle. What their clients send meanwhile is read and dropped, and resets nothing. */
  finishIdle(): void {
    for (const connection of this.all()) if (connection.isIdle) connection.finish()
  }
}

/**
 * Adds the connections to an application. Its server emits `replied` when a response has been sent or given up, with the
 * reply and whether it was sent, but not for injected requests; `rejected` with a failure that was written without
 * Fastify, its `requestId` and its `client`; and `stalled` with the address of a client that took nothing of its responses.
 * Returns two ways to reject a connection: with a failure, and by Node's error.
 */
export function addConnections(app: FastifyInstance, limits: ConnectionLimits) {
  const { server } = app
  const connections = new Connections(limits)
  const observer: Observer = {
    onBegun: (connection) => connections.room.keep(connection),
    onServed: (connection) => connections.room.move(connection),
    onClosed: (reply) => endReply(app, reply)
  }
  // Node's own clock measures other times than ours, and would respond by itself.
  server.headersTimeout = server.requestTimeout = 0
  server.keepAliveTimeout = limits.keepAliveTimeout
  // Never reached: each further one takes the place of another.
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
    // No response for a client that has gone or has never sent anything, nor for bytes after the connection's last request.
    if (code === 'ECONNRESET' || socket.bytesRead === 0) socket.destroy()
    else if (code === 'HPE_CLOSED_CONNECTION') connections.bySocket.get(socket)?.stopReading()
    else rejectConnection(socket, toParserFailure(error))
  }

  server.once('listening', () => {
    const stop = startChecks(app, connections, rejectConnection)
    server.once('close', stop)
  })
  server.on('connection', (socket: Socket) => {
    // After a socket has closed, Node knows its address only if it was read before.
    void socket.remoteAddress
    const connection = new Connection(socket, connections.shared, connections.room.make(), observer)
    connections.bySocket.set(socket, connection)
    connections.room.add(connection)
    connections.backpressure.accept()
    // Node's parser reports no error in the body of a request to upgrade, not even its missing end.
    socket.on('end', () => connection.isArriving && rejectConnection(socket, new Failure('MalformedRequest')))
    socket.once('close', () => {
      connections.bySocket.delete(socket)
      connections.room.remove(connection)
      connections.backpressure.remove(connection)
      connection.close()
    })
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    connections.bySocket.get(request.socket)?.receive(request, response)
  })
  app.decorate('connections', connections)
  app.addHook('preClose', (done) => {
    connections.beginClosing()
    connections.hasClosed = true
    // After the poll phase: what has reached the process is accepted and read before the server stops listening.
    setImmediate(done)
  })
  return { rejectConnection, rejectUnreadable }
}

function endReply({ connections, server }: FastifyInstance, reply: FastifyReply) {
  const { failure, operation } = reply.request
  const isSent = reply.raw.writableFinished
  if (isSent && (failure || !operation)) connections.backpressure.add(reply)
  server.emit('replied', reply, isSent)
}

/** Looks at all connections several times a second; returns a function that ends it. */
function startChecks(
  { server }: FastifyInstance,
  connections: Connections,
  reject: (socket: Socket, failure: Failure) => void
) {
  const questionEveryMs = connections.shared.requestTimeoutMs / questionsPerLimit
  let askedAt = 0
  let hasEnded = false

  function cutOff({ socket }: Connection) {
    connections.stalled++
    server.emit('stalled', socket.remoteAddress)
    reset(socket)
  }

  /** An answer has the sockets of all processes, closed ones included: for thousands, it costs 20 ms of CPU time. */
  async function askIfNeeded() {
    const [began, all] = [performance.now(), connections.all()]
    if (began - askedAt < questionEveryMs && !mayExceedBound(all)) return
    askedAt = began
    const held = await askKernel(all)
    findGreedy(held).forEach(cutOff)
    const left = [...held].filter(([{ socket }]) => !socket.destroyed)
    connections.heldByKernel = left.reduce((sum, [, bytes]) => sum + bytes, 0)
    const restMs = Math.min(longestRestMs, (performance.now() - began) * restsPerQuestion)
    await sleep(restMs, undefined, { ref: false })
  }

  async function askOften() {
    for (; !hasEnded; await sleep(checkEveryMs, undefined, { ref: false })) await askIfNeeded()
  }

  function check() {
    const { hasClosed } = connections
    // Some got their last response before the shutdown began, but it has been flushed only since.
    if (hasClosed) connections.finishIdle()
    const now = performance.now()
    for (const connection of connections.all()) {
      if (connection.socket.destroyed) continue
      const fault = connection.check(now, hasClosed)
      if (fault === 'late') reject(connection.socket, new Failure('RequestTimeout'))
      if (fault === 'stalled') cutOff(connection)
      if (fault === 'silent') connection.socket.destroy()
    }
  }

  // Checked after the poll phase: what arrived while the process stood still was in time, and is read first.
  const timer = setInterval(setImmediate, checkEveryMs, check).unref()
  void askOften()
  return () => {
    hasEnded = true
    clearInterval(timer)
  }
}
