/** Admission: requests that there is no room for are refused before anything of their bodies is read. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import { addGauge } from '../metrics/gauge.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** For any operation: gives the failure of a request that comes over a connection beyond the limit. */
    admitRequest(request: FastifyRequest): Failure | undefined
    /** For an operation that writes: gives the failure of a request that group commit has no room for. */
    admitWrite(request: FastifyRequest): Failure | undefined
    /**
     * For an operation with a body: makes room for it, or gives the failure where there is none beside those that are
     * being read. Its header must have been checked, and it is the last to refuse.
     */
    admitBody(request: FastifyRequest): Failure | undefined
  }
  interface FastifyRequest {
    /** Its body is arriving, with room that was made for it. */
    isAdmitted: boolean
    /** How many bytes are held for it. */
    bodyBytes: number
  }
}

interface Options {
  registry: Registry
  /** Bytes of the bodies that may be arriving at the same time. */
  bodyMemoryBytes: number
}

const tooManyConnections = { message: 'too many connections, this request has stored nothing: try again' }
const tooManyBodies = { message: 'too many bodies are arriving, this request has stored nothing: try again' }

export default fp<Options>(
  async (app, { registry, bodyMemoryBytes }) => {
    let held = 0
    addGauge(registry, 'http_body_bytes', 'Bytes of the bodies that are arriving', () => held)
    addGauge(registry, 'http_body_bytes_limit', 'BODY_MEMORY_BYTES', () => bodyMemoryBytes)
    app.decorateRequest('isAdmitted', false)
    app.decorateRequest('bodyBytes', 0)

    /** Gives false where there is no room for so many bytes more. */
    function hold(request: { bodyBytes: number }, bytes: number): boolean {
      if (held + bytes > bodyMemoryBytes) return false
      held += bytes
      request.bodyBytes += bytes
      return true
    }

    function release(request: FastifyRequest) {
      request.isAdmitted = false
      held -= request.bodyBytes
      request.bodyBytes = 0
    }

    /** A chunked body does not say how long it is: its bytes take room as they come. */
    function holdChunks(request: FastifyRequest) {
      const { raw } = request
      const count = (chunk: Buffer) => {
        // What comes behind the response is dropped and takes no room.
        if (request.isAdmitted && hold(request, chunk.length)) return
        raw.off('data', count)
        if (!request.isAdmitted) return
        // Whoever reads the body ends with it; what still comes is dropped.
        raw.emit('error', new Failure('Overloaded', tooManyBodies))
      }
      raw.on('data', count)
    }

    app.decorate('admitRequest', ({ connection }) =>
      connection?.isExcess ? new Failure('Overloaded', tooManyConnections) : undefined
    )
    app.decorate('admitWrite', ({ caller }) => app.plants.writeRefusal(caller))
    app.decorate('admitBody', (request) => {
      const { headers } = request
      request.isAdmitted = hold(request, Number(headers['content-length'] ?? 0))
      if (!request.isAdmitted) return new Failure('Overloaded', tooManyBodies)
      // Fastify reads it in the same turn: no byte flows before.
      if (headers['transfer-encoding'] !== undefined) holdChunks(request)
      return undefined
    })
    // Of one that is refused later, breaks off or is reset: a response that cannot be sent has no other event.
    app.onClosed(({ request }) => release(request))
    app.addHook('preValidation', (request, _, done) => {
      release(request)
      done()
    })
  },
  { name: 'admission', dependencies: ['protocol', 'storage'] }
)
