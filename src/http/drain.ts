/** Leaving without losing a request: what happens between the signal and the closing of the server. */
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** The service is about to close: it is not ready any more, and still serves. */
    isDraining: boolean
    /**
     * Makes the service not ready, serves on for `delayMs` while balancers notice, and then for a second in which every
     * response tells its client that the connection closes. To be followed by `close`.
     */
    drain(delayMs: number): Promise<void>
  }
}

const noticeMs = 1_000

export default fp(
  async (app) => {
    app.decorate('isDraining', false)
    app.decorate('drain', async (delayMs) => {
      app.isDraining = true
      app.log.info({ delayMs }, 'draining: not ready any more')
      await sleep(delayMs)
      app.endConnections()
      // What they have sent by now gets its response before the notice is over.
      app.resumeAll()
      // Whoever has no connection needs no notice.
      if (app.connections.size > 0) await sleep(noticeMs)
    })
  },
  { name: 'drain', dependencies: ['last-response', 'backpressure'] }
)
