/** The beginning of a shutdown: how balancers and clients learn of it while the service still serves. */
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** The service is shutting down: it is no longer ready, but still serves. */
    isShuttingDown: boolean
    /**
     * Serves for `delayMs` while balancers notice. In its second half, each connection ends with one of its responses, not
     * all at the same time. Then serves for `noticeMs` in which every response is its connection's last, or until no
     * connection is left. Call `close` afterwards.
     */
    announceShutdown(delayMs: number, noticeMs: number): Promise<void>
  }
}

/** How long every response is its connection's last, at least and at most, in ms. */
export const noticeMs = { least: 1_000, most: 3_000 }
const lookEveryMs = 50

export default fp(
  async (app) => {
    app.decorate('isShuttingDown', false)
    app.decorate('announceShutdown', async (delayMs, noticeMs) => {
      const { connections } = app
      app.isShuttingDown = true
      app.log.info({ delayMs }, 'reporting not ready; still serving')
      await sleep(delayMs / 2)
      // A balancer has noticed by now. Clients without one come back at once, and are served until the delay is over.
      connections.leaveWithin(delayMs / 4)
      await sleep(delayMs / 2)
      connections.beginLastResponses()
      const end = performance.now() + noticeMs
      while (connections.size > 0 && performance.now() < end) await sleep(lookEveryMs)
    })
  },
  { name: 'shutdown' }
)
