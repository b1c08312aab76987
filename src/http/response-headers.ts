/** The header fields of every response of Fastify. */
import fp from 'fastify-plugin'
import { responseHeaders } from '../failures/failure.ts'
import { releaseHead } from './head.ts'

const json = 'application/json'
/** What Fastify turns it into. */
const jsonWithCharset = 'application/json; charset=utf-8'
/** So long a text is written as bytes, in a piece of its own. */
const largeLength = 4_096

export default fp(
  async (app) => {
    // Registered first, so that the response of a hook that refuses has them, and a handler can replace them.
    app.addHook('onRequest', (request, reply, done) => {
      reply.headers(responseHeaders(request.id))
      done()
    })
    app.addHook('onSend', (request, reply, payload, done) => {
      const { raw } = request
      // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to everything but bytes. To send
      // bytes would cost a refusal a tenth more, since they are written as a piece of their own.
      if (reply.getHeader('content-type') === jsonWithCharset) reply.header('content-type', json)
      // A slow client may take long to read the response. It may also still send a body, which is read and dropped.
      releaseHead(request)
      if (!raw.complete || raw.readableLength > 0) raw.resume()
      // A text that waits in the connection can take twice its bytes.
      const isLarge = typeof payload === 'string' && payload.length > largeLength
      done(null, isLarge ? Buffer.from(payload) : payload)
    })
  },
  { name: 'response-headers' }
)
