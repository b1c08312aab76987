/** The one error handler: whatever is thrown becomes the interface's failure answer. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure, toAnswer, toFailure } from '../failures.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The failure that the request was answered with; null for a success. */
    failure: Failure | null
  }
}

const mediaType = 'application/json'

/** Answers a request with the failure for whatever was thrown. */
function answerFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = toFailure(thrown)
  request.failure = failure
  const { status, headers, body } = toAnswer(failure)
  return reply.code(status).headers(headers).header('content-type', mediaType).send(body)
}

export default fp(
  async (app) => {
    app.decorateRequest('failure', null)
    app.setErrorHandler(answerFailure)
    app.setNotFoundHandler((request, reply) => answerFailure(new Failure('NotFound'), request, reply))
    // RFC 8259 section 11: the media type has no charset parameter; Fastify adds one to anything but bytes, which are
    // written as a piece of their own and cost a refusal a tenth more.
    app.addHook('onSend', (request, reply, payload, done) => {
      if (request.failure) reply.header('content-type', mediaType)
      done(null, payload)
    })
  },
  { name: 'error-handler' }
)
