/** Backpressure: clients that come faster than they can be refused are read from no faster than that. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Registry } from '@prometheus-io/client'
import fp from 'fastify-plugin'
import { addGauge } from '../metrics/gauge.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads from every client again, as before the last responses. */
    resumeAll(): void
  }
}

/**
 * So many failures of one turn of the event loop cost their clients nothing. Few, since libuv ends a turn only when less
 * than a thousand connections have something to read: clients that are refused and send again at once would keep
 * timers, the database's responses and new batches waiting for seconds.
 */
const failuresPerTurn = 32

interface Options {
  registry: Registry
}

export default fp<Options>(
  async (app, { registry }) => {
    /** Connections whose next request is left unread, in the order in which they go on: as many in each turn. */
    const paused = new Set<Socket>()
    let failures = 0
    let endsSoon = false
    const help = 'Connections that are not read from for a moment'
    addGauge(registry, 'http_connections_held', help, () => paused.size)

    function endTurnSoon() {
      if (!endsSoon) setImmediate(endTurn)
      endsSoon = true
    }

    function endTurn() {
      endsSoon = false
      failures = 0
      let left = failuresPerTurn
      for (const socket of paused) {
        if (left-- === 0) break
        resume(socket)
      }
      if (paused.size > 0) endTurnSoon()
    }

    function failed(request: IncomingMessage) {
      endTurnSoon()
      if (++failures <= failuresPerTurn) return
      // Node reads on by itself until the rest of a refused body has come.
      if (request.complete) pause(request)
      else request.once('end', () => pause(request))
    }

    function pause(request: IncomingMessage) {
      const { socket } = request
      // What has begun to arrive is read, and so is the end of a connection that closes.
      const connection = app.connections.get(socket)
      if (connection?.newest !== request || connection.isOver) return
      socket.pause()
      paused.add(socket)
      endTurnSoon()
    }

    function resume(socket: Socket) {
      paused.delete(socket)
      socket.resume()
    }

    app.decorate('resumeAll', () => paused.forEach(resume))
    app.addHook('onResponse', ({ failure, raw: request }, _, done) => {
      if (failure) failed(request)
      done()
    })
  },
  { name: 'backpressure', dependencies: ['protocol', 'error-handler'] }
)
