/** The beginning of a shutdown: how balancers and clients learn of it while the service still serves. */
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** The service is shutting down: it is no longer ready, but still serves. */
    isShuttingDown: boolean
    /**
     * Serves for `delayMs`, while balancers notice. Then serves for `noticeMs`, in which every response is its connection's
     * last, or until no connection is left. Call `close` afterwards.
     */
    announceShutdown(delayMs: number, noticeMs: number): Promise<void>
  }
}

/** The shortest time in which every response is its connection's last. */
export const shortestNoticeMs = 1_000
/** The longest such time. */
export const longestNoticeMs = 3_000
const checkEveryMs = 50

export default fp(
  async (app) => {
    app.decorate('isShuttingDown', false)
    app.decorate('announceShutdown', async (delayMs, noticeMs) => {
      const { connections } = app
      app.isShuttingDown = true
      app.log.info({ delayMs }, 'reporting not ready; still serving')
      await sleep(delayMs)
      connections.isLeaving = true
      const end = performance.now() + noticeMs
      while (connections.size > 0 && performance.now() < end) await sleep(checkEveryMs)
    })
  },
  { name: 'shutdown' }
)
