/** The header fields of every answer that Fastify writes. */
import fp from 'fastify-plugin'
import { answerHeaders } from './fields.ts'

const json = 'application/json'
/** What Fastify makes of it. */
const jsonWithCharset = 'application/json; charset=utf-8'

export default fp(
  async (app) => {
    // Before every hook that could refuse.
    app.addHook('onRequest', (request, reply, done) => {
      reply.headers(answerHeaders(request.id))
      done()
    })
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to anything but bytes, which are
    // written as a piece of their own and cost a refusal a tenth more.
    app.addHook('onSend', (_, reply, payload, done) => {
      if (reply.getHeader('content-type') === jsonWithCharset) reply.header('content-type', json)
      done(null, payload)
    })
  },
  { name: 'answer-headers' }
)
