/** The probes of an orchestrator or a balancer, which never query the database (docs/decisions.md), and how a shutdown begins. */
import { setTimeout as sleep } from 'node:timers/promises'
import fp from 'fastify-plugin'
import { noticeMs } from '../config.ts'
import { Failure } from '../failures.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Serves for `delayMs`, while balancers notice that it is not ready. Then serves for `noticeMs`. Call `close` afterwards. */
    announceShutdown(delayMs: number): Promise<void>
  }
}

export default fp(async (app) => {
  let isShuttingDown = false
  app.get('/livez', () => ({ status: 'alive' }))
  app.get('/readyz', () => {
    if (isShuttingDown) throw new Failure('NotReady', { message: 'the service is shutting down' })
    return { status: 'ready' }
  })
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
