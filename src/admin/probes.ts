/**
 * The probes of an orchestrator or a balancer. None queries the database: all replicas share it, and an outage of it would
 * take all of them out of service at once (docs/decisions/readiness-without-the-database.md).
 */
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failures/failure.ts'

const config = { isInternal: true } as const

/** Adds /livez, which says that the process responds. */
export function addLiveness(app: FastifyInstance): void {
  app.get('/livez', { config }, () => ({ status: 'alive' }))
}

/** Adds /readyz, which fails from the beginning of the shutdown. */
export function addReadiness(app: FastifyInstance): void {
  app.get('/readyz', { config }, () => {
    if (app.isShuttingDown) throw new Failure('NotReady', { message: 'the service is shutting down' })
    return { status: 'ready' }
  })
}
