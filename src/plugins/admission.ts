/** Admission: creates that there is no room for are refused before anything of their bodies is read. */
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures.ts'
import type { Bounds } from '../metrics/http-metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Refuses a create that comes over a connection beyond the limit, that the storage has no room for, or whose body
     * has no room beside those that are being read. Its header must have been checked.
     */
    admit: onRequestHookHandler
  }
  interface FastifyRequest {
    /** How many bytes of its body are held for it, until it is read. */
    bodyBytes: number
  }
}

const tooManyConnections = { message: 'too many connections, the plant is not stored: try again' }
const tooManyBodies = { message: 'too many bodies are arriving, the plant is not stored: try again' }

export default fp<Bounds>(
  async (app, { maxConnections, bodyMemoryBytes }) => {
    let held = 0
    app.metrics.http.watch({ maxConnections, bodyMemoryBytes }, () => held)
    app.decorateRequest('bodyBytes', 0)

    /** Gives false where there is no room for so many bytes more. */
    function hold(request: { bodyBytes: number }, bytes: number): boolean {
      if (held + bytes > bodyMemoryBytes) return false
      held += bytes
      request.bodyBytes += bytes
      return true
    }

    function release(request: { bodyBytes: number }) {
      held -= request.bodyBytes
      request.bodyBytes = 0
    }

    app.decorate('admit', (request, _, done) => {
      if (app.connections.get(request.raw.socket)?.isExcess) {
        return done(new Failure('Overloaded', tooManyConnections))
      }
      const refusal = app.plants.refusal()
      if (refusal) return done(refusal)
      // A chunked body does not say how long it is: it is counted as it comes.
      const isHeld = hold(request, Number(request.headers['content-length'] ?? 0))
      done(isHeld ? undefined : new Failure('Overloaded', tooManyBodies))
    })
    app.addHook('preParsing', (request, _, payload, done) => {
      const { raw, headers } = request
      if (headers['transfer-encoding'] !== undefined) {
        const count = (chunk: Buffer) => {
          if (hold(request, chunk.length)) return
          raw.off('data', count)
          // Whoever reads the body ends with it; what still comes is dropped.
          raw.emit('error', new Failure('Overloaded', tooManyBodies))
        }
        raw.on('data', count)
      }
      done(null, payload)
    })
    app.addHook('preValidation', (request, _, done) => {
      release(request)
      done()
    })
    // Of what was refused, or broke off.
    app.addHook('onResponse', (request, _, done) => {
      release(request)
      done()
    })
  },
  { name: 'admission', dependencies: ['protocol', 'metrics', 'database'] }
)
