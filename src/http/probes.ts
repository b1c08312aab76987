/**
 * The probes of an orchestrator or a balancer. Neither asks the database: all replicas share it, and would be taken out of
 * service at once (docs/decisions/readiness-without-the-database.md).
 */
import type { FastifyPluginAsync } from 'fastify'
import { Failure } from '../failures/failure.ts'

const probes: FastifyPluginAsync = async (app) => {
  app.get('/livez', { config: { isInternal: true } }, () => ({ status: 'alive' }))
  app.get('/readyz', { config: { isInternal: true } }, () => {
    if (app.isShuttingDown) throw new Failure('NotReady', { message: 'the service is closing' })
    return { status: 'ready' }
  })
}

export default probes
