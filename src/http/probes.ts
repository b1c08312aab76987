/** The probes of an orchestrator or a balancer: is the process alive, and is it ready for requests. */
import type { FastifyPluginAsync } from 'fastify'
import { Failure } from '../failures/failure.ts'

interface Options {
  /** Resolves when the service can serve, rejects with a Failure when not. */
  checkReadiness: () => Promise<void>
}

/** However often it is probed, the database is asked once in this time. */
const validMs = 1_000

const probes: FastifyPluginAsync<Options> = async (app, { checkReadiness }) => {
  let readiness = Promise.resolve()
  let validUntil = 0

  function isReady(): Promise<void> {
    if (app.isDraining) throw new Failure('NotReady', { message: 'the service is closing' })
    if (performance.now() < validUntil) return readiness
    readiness = checkReadiness()
    validUntil = Number.POSITIVE_INFINITY
    const expire = () => {
      validUntil = performance.now() + validMs
    }
    readiness.then(expire, expire)
    return readiness
  }

  app.get('/livez', { config: { isInternal: true } }, () => ({ status: 'alive' }))
  app.get('/readyz', { config: { isInternal: true, failures: ['NotReady'] } }, async () => {
    await isReady()
    return { status: 'ready' }
  })
}

export default probes
