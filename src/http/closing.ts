/** How connections end, and how a server closes without cutting off a response that it owes. */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connection.ts'

const quietMs = 1_000
const silentMs = 1_000
const lingerMs = 2_000
const checkMs = 100

/**
 * Sends what is left to send, and destroys the socket when its client has been quiet for a second, or after `limitMs`.
 * Until then it is read: destroyed amid unread bytes it would be reset, and the client could lose its response.
 */
export function endConnection(socket: Socket, limitMs: number): void {
  if (socket.writableEnded || socket.destroyed) return
  socket.end()
  const until = performance.now() + limitMs
  let bytesRead = socket.bytesRead
  const timer = setInterval(() => {
    const isQuiet = socket.writableFinished && socket.bytesRead === bytesRead
    if (isQuiet || performance.now() > until) socket.destroy()
    bytesRead = socket.bytesRead
  }, quietMs)
  socket.once('close', () => clearInterval(timer))
  // Nothing of it is parsed any more: whatever has paused it, it is to be read out.
  socket.resume()
}

/**
 * Keeps `server.closeIdleConnections()`, and with it `close()`, from destroying connections whose responses are not
 * flushed, or whose client still sends what is dropped: Node takes both for idle.
 */
export function keepUnflushed(server: Server, connections: Connections): void {
  const closeIdleConnections = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    const kept = [...connections].flatMap(([socket, { pendingResponses }]) =>
      pendingResponses.size > 0 || socket.writableLength > 0 || socket.writableEnded ? [socket] : []
    )
    for (const socket of kept) socket.destroy = () => socket
    closeIdleConnections()
    for (const socket of kept) Reflect.deleteProperty(socket, 'destroy')
  }
}

/**
 * Watches the connections of a server that closes, until it has closed. Node's own check for requests that do not
 * arrive ends with `close()`. `onLate` is called with each socket whose client leaves a request unfinished for
 * `limitMs`; a client that has never sent anything is owed nothing and is cut off after a second.
 */
export function watchClosing(
  server: Server,
  connections: Connections,
  limitMs: number,
  onLate: (socket: Socket) => void
): void {
  const waitingSince = new Map<Socket, number>()
  const check = () => {
    // Those whose last response said nothing of the closing, and has been flushed by now.
    server.closeIdleConnections()
    const now = performance.now()
    for (const [socket, { newest, pendingResponses }] of connections) {
      const isWaiting = pendingResponses.size === 0 || isArriving(socket, newest, pendingResponses.size)
      if (!isWaiting) waitingSince.delete(socket)
      else if (!waitingSince.has(socket)) waitingSince.set(socket, now)
      const waitedMs = now - (waitingSince.get(socket) ?? now)
      const isSilent = socket.bytesRead === 0 && waitedMs > silentMs
      // It has all that it is owed, and still sends.
      const isLingering = socket.writableFinished && waitedMs > lingerMs
      if (isSilent || isLingering) socket.destroy()
      else if (waitedMs > limitMs - checkMs) onLate(socket)
    }
  }
  check()
  const timer = setInterval(check, checkMs).unref()
  server.once('close', () => clearInterval(timer))
}

/** Tells whether a request waits for its client; what we hold unread, and what waits for its 100, does not. */
function isArriving(socket: Socket, request: IncomingMessage | undefined, pending: number): boolean {
  if (request === undefined || request.complete || socket.readableLength > 0) return false
  return pending === 1 || request.headers.expect === undefined
}
