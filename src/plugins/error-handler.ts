/** The one error handler: whatever is thrown becomes the interface's failure answer. */
import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, toAnswer, toFailure } from '../failures.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Answers a request whose path cannot be decoded, of which Fastify itself runs no hooks. */
    answerBadUrl(request: FastifyRequest, reply: FastifyReply): void
  }
  interface FastifyRequest {
    /** The failure that the request was answered with; null for a success. */
    failure: Failure | null
  }
}

/** A path that no route can have. */
export const unknownPath = '//'

/** Answers a request with the failure for whatever was thrown. */
function answerFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = toFailure(thrown)
  request.failure = failure
  const { status, headers, body } = toAnswer(failure)
  return reply.code(status).headers(headers).header('content-type', 'application/json').send(body)
}

export default fp(
  async (app) => {
    app.decorateRequest('failure', null)
    app.setErrorHandler(answerFailure)
    app.setNotFoundHandler((request, reply) => answerFailure(new Failure('NotFound'), request, reply))
    const badUrls = new WeakSet<IncomingMessage>()
    app.decorate('answerBadUrl', ({ raw: request }, { raw: response }) => {
      badUrls.add(request)
      request.url = unknownPath
      app.routing(request, response)
    })
    // Fastify would read and judge the body of an unknown path before it looks at the path.
    app.addHook('onRequest', (request, _, done) => {
      if (request.is404) done(new Failure(badUrls.has(request.raw) ? 'MalformedRequest' : 'NotFound'))
      else done()
    })
  },
  { name: 'error-handler' }
)
