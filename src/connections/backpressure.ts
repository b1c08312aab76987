/** Backpressure: clients whose requests fail are read no faster than they can be refused. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Registry } from '@prometheus-io/client'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { addGauge } from '../metrics/metrics.ts'
import type { Connection } from './connection.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Reads from every client again: used before the last responses. */
    resumeAll(): void
  }
}

/**
 * How many failures in one turn of the event loop cost their clients no pause. Few, since libuv ends a turn only when
 * fewer than a thousand connections have something to read: refused clients that send again at once would keep timers,
 * the database's responses and new batches waiting for seconds.
 */
const failuresPerTurn = 32

export default fp<{ registry: Registry }>(
  async (app, { registry }) => {
    /** Connections whose next request is left unread, in the order in which they resume: as many in each turn. */
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

    function failed({ raw, connection }: FastifyRequest) {
      endTurnSoon()
      if (++failures <= failuresPerTurn) return
      // Pause later: until a refused body has arrived completely, Node would resume the socket.
      if (raw.complete) pause(raw, connection)
      else raw.once('end', () => pause(raw, connection))
    }

    function pause(request: IncomingMessage, connection: Connection | undefined) {
      const { socket } = request
      // A request that has begun to arrive is read to its end, and so is a connection that closes.
      if (!connection?.isIdleAfter(request)) return
      socket.pause()
      paused.add(socket)
      endTurnSoon()
    }

    function resume(socket: Socket) {
      paused.delete(socket)
      socket.resume()
    }

    app.decorate('resumeAll', () => paused.forEach(resume))
    app.onClosed(({ request }, isSent) => {
      if (request.failure && isSent) failed(request)
    })
  },
  { name: 'backpressure' }
)
