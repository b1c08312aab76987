/** Paths that have no route: judged behind the protocol, and before a body is read. */
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Answers a request whose path cannot be decoded, of which Fastify itself runs no hooks. */
    rejectBadUrl(request: FastifyRequest, reply: FastifyReply): void
  }
}

/** A path that no route can have. */
export const noPath = '//'

export default fp(
  async (app) => {
    const badUrls = new WeakSet<IncomingMessage>()
    app.decorate('rejectBadUrl', ({ raw: request }, { raw: response }) => {
      badUrls.add(request)
      request.url = noPath
      app.routing(request, response)
    })
    // Fastify would read and judge the body of an unknown path before it looks at the path.
    app.addHook('onRequest', (request, _, done) => {
      if (request.is404) done(new Failure(badUrls.has(request.raw) ? 'MalformedRequest' : 'NotFound'))
      else done()
    })
  },
  { name: 'unknown-path', dependencies: ['protocol'] }
)
