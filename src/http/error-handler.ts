/** The one error handler: everything that is thrown becomes the interface's failure response. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, toFailure, toResponse } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The failure that was sent; null for a success. */
    failure: Failure | null
  }
}

/** Responds with the failure for what was thrown. */
function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = toFailure(thrown)
  request.failure = failure
  // Its client can be slow to read the response.
  request.body = undefined
  const { status, headers, body } = toResponse(failure)
  return reply.code(status).headers(headers).header('content-type', 'application/json').send(body)
}

export default fp(
  async (app) => {
    app.decorateRequest('failure', null)
    app.setErrorHandler(sendFailure)
    app.setNotFoundHandler((request, reply) => sendFailure(new Failure('NotFound'), request, reply))
  },
  { name: 'error-handler' }
)
