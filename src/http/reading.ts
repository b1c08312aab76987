/** How a connection is read: no further than its client takes the responses. */
import type { Socket } from 'node:net'
import type { Connection } from './connection.ts'

/** So many requests of one connection wait for their responses; it is read on when half of them are sent. */
export const maximumPending = 64
/** The shortest request, `GET / HTTP/1.1` and an empty line, has 18 bytes. */
const leastRequestBytes = 16

type Reader = (chunk: Buffer) => void

/**
 * Puts itself between a socket and Node's parser, which would parse whatever has been read: up to 64 KiB, and so
 * thousands of requests, at a time. The parser gets pieces that cannot hold more requests than may wait, and nothing
 * behind the last response of the connection.
 */
export function readInPieces(socket: Socket, connection: Connection): void {
  const [parse] = socket.listeners('data') as [Reader]
  /** Of the request that is arriving, bytes that are certainly of its body: they hold no other request. */
  let bodyBytes = 0
  socket.off('data', parse)
  socket.on('data', (chunk: Buffer) => {
    for (let from = 0; from < chunk.length; ) {
      if (connection.isOver || socket.destroyed) return
      const room = maximumPending - connection.pendingResponses.size
      const isArriving = connection.newest?.complete === false
      if ((room <= 0 && !isArriving) || isPausedByNode(socket)) socket.pause()
      if (socket.isPaused()) return socket.unshift(chunk.subarray(from))
      const { newest } = connection
      // Without room the newest is read to its end, in pieces too short for another.
      const bytes = Math.max(room, 0.5) * leastRequestBytes
      const to = from + Math.max(bytes, bodyBytes)
      const piece = from === 0 && to >= chunk.length ? chunk : chunk.subarray(from, to)
      parse(piece)
      if (connection.newest !== newest) bodyBytes = Number(connection.newest?.headers['content-length'] ?? 0)
      bodyBytes -= piece.length
      if (connection.isFinal && connection.newest?.complete) connection.isOver = true
      from += piece.length
    }
  })
}

/** While much waits to be written Node's parser takes no bytes, whoever has made the socket flow; Node itself resumes it. */
function isPausedByNode(socket: Socket & { _paused?: boolean }): boolean {
  return socket._paused === true
}
