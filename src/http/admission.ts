/** Admission: a request without room is refused before any of its body is read. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/metrics.ts'
import { Shares } from '../shares.ts'
import body, { tooManyBodies } from './body.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** For any operation: returns the failure of a request that comes over a connection beyond the limit. */
    admitRequest(request: FastifyRequest): Failure | undefined
    /** For an operation with a body: returns the failure of a request whose body finds no room. */
    admitBody(request: FastifyRequest): Failure | undefined
  }
}

interface Options {
  registry: Registry
  /** Bytes of the bodies that may be arriving at the same time. */
  bodyMemoryBytes: number
}

const tooManyConnections = { message: 'too many connections, this request has stored nothing: try again' }

export default fp<Options>(
  async (app, { registry, bodyMemoryBytes }) => {
    const bodies = new Shares(bodyMemoryBytes)
    addGauge(registry, 'http_body_bytes', 'Bytes held for the bodies that are arriving', () => bodies.held)
    addGauge(registry, 'http_body_bytes_limit', 'BODY_MEMORY_BYTES', () => bodyMemoryBytes)
    await app.register(body, { bodies })
    app.decorate('admitRequest', ({ connection }) =>
      connection?.isExcess ? new Failure('Overloaded', tooManyConnections) : undefined
    )
    app.decorate('admitBody', ({ caller, headers }) =>
      bodies.fits(caller, Number(headers['content-length'] ?? 1))
        ? undefined
        : new Failure('Overloaded', tooManyBodies)
    )
  },
  { name: 'admission', dependencies: ['protocol', 'auth'] }
)
