/** Follows the connections of a server, and the requests on each that have no complete response yet. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { endConnection } from './closing.ts'
import type { Connection, Connections } from './connection.ts'
import { maximumPending, readInPieces } from './reading.ts'

/**
 * Follows every connection of a server from now on; those that are opened beside `maximum` others are marked. A
 * connection that ends is read on for as long as its client still sends, `limitMs` at most. `onClosed` is called with each
 * reply that has been sent, or whose connection has closed before.
 */
export function trackConnections(
  server: Server,
  limitMs: number,
  maximum: number,
  onClosed: (reply: FastifyReply) => void
): Connections {
  const connections: Connections = Object.assign(new Map(), { isClosing: false })
  server.on('connection', (socket: Socket) => {
    const connection: Connection = {
      pendingResponses: new Map(),
      newest: undefined,
      newestFailure: undefined,
      isFinal: false,
      isOver: false,
      owesFailure: false,
      isExcess: connections.size >= maximum,
      onSettled: undefined,
      end: () => {
        connection.isOver = true
        endConnection(socket, limitMs)
      }
    }
    connections.set(socket, connection)
    readInPieces(socket, connection)
    socket.once('close', () => {
      connections.delete(socket)
      // Behind a CONNECT Node forgets those that wait their turn: who waits for their end would wait for ever.
      for (const response of connection.pendingResponses.keys()) response.destroy()
    })
    // Node takes its own listener away before a CONNECT; a reset would then end the process.
    socket.on('error', () => {})
    // Node calls this behind the last response, and its own would destroy the socket at once.
    socket.destroySoon = () => {
      if (!connection.owesFailure) connection.end()
    }
  })
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(socket)
    if (connection === undefined || connection.isOver || connection.isFinal) return
    connection.newest = response.req
    connection.pendingResponses.set(response, undefined)
    // Behind a request to upgrade Node drops what it has of the next.
    connection.isFinal = connections.isClosing || response.req.headers.upgrade !== undefined
    // Its body is not read either: a refusal needs none.
    if (connection.isExcess) connection.isOver = true
    response.on('close', () => {
      const { pendingResponses } = connection
      const reply = pendingResponses.get(response)
      pendingResponses.delete(response)
      if (pendingResponses.size === maximumPending / 2) socket.resume()
      if (pendingResponses.size === 0) connection.onSettled?.()
      if (reply !== undefined) onClosed(reply)
    })
  })
  return connections
}
