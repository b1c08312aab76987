/** Backpressure: clients that come faster than they can be refused are read from no faster than that. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'

/**
 * So many failures of one turn of the event loop cost their clients nothing. Few, since libuv ends a turn only when less
 * than a thousand connections have something to read: clients that are refused and send again at once would keep
 * timers, the database's answers and new batches waiting for seconds.
 */
const freeOfTurn = 32

export default fp(
  async (app) => {
    /** Connections whose next request is left unread, in the order in which they go on: as many in each turn. */
    const held: Socket[] = []
    let failuresOfTurn = 0
    let endsSoon = false
    app.metrics.http.watchHeld(() => held.length)

    function endTurnSoon() {
      if (!endsSoon) setImmediate(endTurn)
      endsSoon = true
    }

    function endTurn() {
      endsSoon = false
      failuresOfTurn = 0
      for (const socket of held.splice(0, freeOfTurn)) socket.resume()
      if (held.length > 0) endTurnSoon()
    }

    function hold({ socket }: IncomingMessage) {
      socket.pause()
      held.push(socket)
      endTurnSoon()
    }

    app.addHook('onResponse', ({ failure, raw: request }, _, done) => {
      if (failure) {
        endTurnSoon()
        if (++failuresOfTurn <= freeOfTurn) return done()
        // Node reads on by itself until the rest of a refused body has come.
        if (request.complete) hold(request)
        else request.once('end', () => hold(request))
      }
      done()
    })
  },
  { name: 'backpressure', dependencies: ['metrics', 'error-handler'] }
)
