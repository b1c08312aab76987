/** Backpressure: clients that come faster than they can be refused are read from no faster than that. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads from every client again, as before the last responses. */
    readFromAll(): void
  }
}

/**
 * So many failures of one turn of the event loop cost their clients nothing. Few, since libuv ends a turn only when less
 * than a thousand connections have something to read: clients that are refused and send again at once would keep
 * timers, the database's answers and new batches waiting for seconds.
 */
const freeOfTurn = 32

export default fp(
  async (app) => {
    /** Connections whose next request is left unread, in the order in which they go on: as many in each turn. */
    const held = new Set<Socket>()
    let failuresOfTurn = 0
    let endsSoon = false
    app.metrics.http.watchHeld(() => held.size)

    function endTurnSoon() {
      if (!endsSoon) setImmediate(endTurn)
      endsSoon = true
    }

    function endTurn() {
      endsSoon = false
      failuresOfTurn = 0
      let left = freeOfTurn
      for (const socket of held) {
        if (left-- === 0) break
        release(socket)
      }
      if (held.size > 0) endTurnSoon()
    }

    function failed(request: IncomingMessage) {
      endTurnSoon()
      if (++failuresOfTurn <= freeOfTurn) return
      // Node reads on by itself until the rest of a refused body has come.
      if (request.complete) hold(request)
      else request.once('end', () => hold(request))
    }

    function hold(request: IncomingMessage) {
      const { socket } = request
      // What has begun to arrive is read, and so is the end of a connection that closes.
      const connection = app.connections.get(socket)
      if (connection?.newest !== request || connection.isOver) return
      socket.pause()
      held.add(socket)
      endTurnSoon()
    }

    function release(socket: Socket) {
      held.delete(socket)
      socket.resume()
    }

    app.decorate('readFromAll', () => held.forEach(release))
    app.addHook('onResponse', ({ failure, raw: request }, _, done) => {
      if (failure) failed(request)
      done()
    })
  },
  { name: 'backpressure', dependencies: ['protocol', 'metrics', 'error-handler'] }
)
