/** The connections of the server, and the requests on each that have no complete answer yet. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** What is known of an open connection. */
export interface Connection {
  /** The answers that are still owed, in the order of their requests. */
  unanswered: ServerResponse[]
  /** The request that came last, answered or not. */
  newest: IncomingMessage | undefined
  /** Its bytes could not be read on: whoever refused it ends it. */
  isRefused: boolean
  /** An answer, sent or still waiting, says that it is the last. */
  isEnding: boolean
  /** It was opened beyond the limit: it is to end with its first answer. */
  readonly isExcess: boolean
  /** Sends what is left to send, and destroys the socket when its client has stopped sending. */
  end(): void
}

/** The open connections. */
export type Connections = Map<Socket, Connection>

const quietMs = 1_000

/**
 * Follows every connection of a server from now on; those that are opened beside `maximum` others are marked. A
 * connection that ends is read on for as long as its client still sends, `limitMs` at most: to destroy it earlier would
 * reset it, and the client could lose its answer.
 */
export function trackConnections(server: Server, limitMs: number, maximum: number): Connections {
  const connections: Connections = new Map()
  server.on('connection', (socket: Socket) => {
    const end = () => endConnection(socket, limitMs)
    const connection: Connection = {
      unanswered: [],
      newest: undefined,
      isRefused: false,
      isEnding: false,
      isExcess: connections.size >= maximum,
      end
    }
    connections.set(socket, connection)
    socket.once('close', () => connections.delete(socket))
    // Node takes its own listener away before a CONNECT; a reset would then end the process.
    socket.on('error', () => {})
    // Node calls this behind the last answer, and its own would destroy the socket at once.
    socket.destroySoon = () => {
      if (!connection.isRefused || connection.isEnding) end()
    }
  })
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(request.socket)
    if (connection === undefined) return
    const { unanswered } = connection
    connection.newest = request
    unanswered.push(response)
    response.once('close', () => unanswered.splice(unanswered.indexOf(response), 1))
  })
  return connections
}

function endConnection(socket: Socket, limitMs: number): void {
  if (socket.writableEnded) return
  socket.end()
  const until = performance.now() + limitMs
  let bytesRead = socket.bytesRead
  const timer = setInterval(() => {
    if (socket.bytesRead === bytesRead || performance.now() > until) socket.destroy()
    bytesRead = socket.bytesRead
  }, quietMs)
  socket.once('close', () => clearInterval(timer))
}
