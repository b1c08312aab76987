/** The header fields of every answer that Fastify writes. */
import fp from 'fastify-plugin'
import { answerHeaders } from '../http/answer-headers.ts'

export default fp(
  async (app) => {
    // Before every hook that could refuse.
    app.addHook('onRequest', (request, reply, done) => {
      reply.headers(answerHeaders(request.id))
      done()
    })
  },
  { name: 'answer-headers' }
)
