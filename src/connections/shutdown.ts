/** Shutdown without losing a request: from the signal until the last connection has ended. */
import type { Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'
import type { Connections } from './connections.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The service is about to close: it is no longer ready, but still serves. */
    isShuttingDown: boolean
    /**
     * Makes the service not ready, and serves for `delayMs` while balancers notice, then for a second in which every
     * response tells its client that the connection closes. Call `close` afterwards.
     */
    announceShutdown(delayMs: number): Promise<void>
  }
}

/** How long clients learn from their responses that the connections close, in ms. */
export const noticeMs = 1_000

/**
 * Keeps `server.closeIdleConnections()`, and so `close()`, from destroying connections whose responses are not flushed,
 * or whose client still sends a body that is dropped: Node considers both idle.
 */
function keepBusy(server: Server, connections: Connections): void {
  const closeIdleConnections = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => {
    const kept = [...connections].flatMap(([socket, { isBusy }]) => (isBusy ? [socket] : []))
    for (const socket of kept) socket.destroy = () => socket
    closeIdleConnections()
    for (const socket of kept) Reflect.deleteProperty(socket, 'destroy')
  }
}

export default fp(
  async (app) => {
    const { connections, server } = app
    keepBusy(server, connections)

    app.decorate('isShuttingDown', false)
    app.decorate('announceShutdown', async (delayMs) => {
      app.isShuttingDown = true
      app.log.info({ delayMs }, 'draining: not ready any more')
      await sleep(delayMs)
      connections.isClosing = true
      // Requests that paused connections have sent get their responses during the notice.
      app.resumeAll()
      // Without connections, nobody needs the notice.
      if (connections.size > 0) await sleep(noticeMs)
    })

    app.addHook('onSend', (request, reply, payload, done) => {
      const { raw, connection, awaits100 } = request
      // Refused before its 100, a client may send the body or not: what follows cannot be told apart.
      const isUninvited = awaits100 && !raw.complete
      if (connection?.isNewest(raw) && (connection.endsWithNewest || isUninvited)) {
        reply.header('connection', 'close')
        connection.stopReading()
      }
      // Without this, Node would close after a body that was sent without waiting for 100, and lose the later responses.
      else if (awaits100 && reply.raw.shouldKeepAlive) reply.header('connection', 'keep-alive')
      // Fastify asks to close after a refused body, which may reset the connection, and during its own close, which would
      // lose the later responses. Instead, the rest of the body is read and dropped.
      else if (reply.hasHeader('connection') || connections.isClosing) reply.removeHeader('connection')
      done(null, payload)
    })

    app.addHook('preClose', (done) => {
      connections.isClosing = connections.hasClosed = true
      done()
    })
  },
  { name: 'shutdown', dependencies: ['connections'] }
)
