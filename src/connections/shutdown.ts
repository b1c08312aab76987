/** Shutdown without losing a request: from the signal until the last connection has ended. */
import type { Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'
import type { Connections } from './connections.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The service is about to close: it is not ready any more, and still serves. */
    isShuttingDown: boolean
    /**
     * Makes the service not ready, serves on for `delayMs` while balancers notice, and then for a second in which every
     * response tells its client that the connection closes. To be followed by `close`.
     */
    announceShutdown(delayMs: number): Promise<void>
  }
}

/** How long clients learn from their responses that the connections close, in ms. */
export const noticeMs = 1_000

/**
 * Keeps `server.closeIdleConnections()`, and with it `close()`, from destroying connections whose responses are not
 * flushed, or whose client still sends what is dropped: Node takes both for idle.
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
      // What they have sent by now gets its response before the notice is over.
      app.resumeAll()
      // Where nobody is connected, nobody needs a notice.
      if (connections.size > 0) await sleep(noticeMs)
    })

    app.addHook('onSend', (request, reply, payload, done) => {
      const { raw, connection, awaits100 } = request
      // Whether its body comes is the client's choice.
      const isUninvited = awaits100 && !raw.complete
      if (connection?.isNewest(raw) && (connection.endsWithNewest || isUninvited)) {
        reply.header('connection', 'close')
        connection.stopReading()
      }
      // Node closes after a body that came without its 100, with the responses after this one unsent.
      else if (awaits100 && reply.raw.shouldKeepAlive) reply.header('connection', 'keep-alive')
      // Fastify closes after a refused body, which may reset the connection, and while it closes itself, which would
      // cut off the responses after this one. The rest of the body is read and dropped instead.
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
