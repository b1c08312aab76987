/**
 * The probes for an orchestrator or a load balancer, and the first part of a shutdown. The probes
 * never query the database (docs/decisions.md).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { noticeMs } from '../config.ts'
import { Failure } from '../failures.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Adds the probes to an application. Even on another application, at another port, they report
     * the state of this one.
     */
    addProbes(to: FastifyInstance): void
    /**
     * Reports that the application is not ready, and serves for `delayMs`, so that load balancers
     * notice it. Then serves for `noticeMs` and makes each response the last one on its connection.
     * Call `close` afterwards.
     */
    announceShutdown(delayMs: number): Promise<void>
  }
}

export default fp(async (app) => {
  let isShuttingDown = false
  const addProbes = (to: FastifyInstance) => {
    to.get('/livez', () => ({ status: 'alive' }))
    to.get('/readyz', () => {
      if (isShuttingDown) throw new Failure('NotReady', { message: 'the service is shutting down' })
      // Another port can respond before this application listens.
      if (to !== app && !app.server.listening) throw new Failure('NotReady')
      return { status: 'ready' }
    })
  }
  addProbes(app)
  app.decorate('addProbes', addProbes)
  app.decorate('announceShutdown', async (delayMs) => {
    const { connections } = app
    isShuttingDown = true
    app.log.info({ delayMs }, 'reporting not ready; still serving')
    await sleep(delayMs)
    connections.isLeaving = true
    const end = performance.now() + noticeMs
    while (connections.size > 0 && performance.now() < end) await sleep(50)
  })
})
