/** The header fields of every response, whether Fastify writes it or we do. */
import fp from 'fastify-plugin'

/**
 * Gives the fields of the response to a request: its id, and that the response is no page (content-security-policy, for a
 * browser that shows one all the same), is of the type that it says, and is kept by no cache. What speaks of TLS is
 * the balancer's to say.
 */
export function responseHeaders(requestId: string) {
  return {
    'x-request-id': requestId,
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff'
  }
}

const json = 'application/json'
/** What Fastify makes of it. */
const jsonWithCharset = 'application/json; charset=utf-8'

export default fp(
  async (app) => {
    // Before every hook that could refuse, and every handler that replaces them.
    app.addHook('onRequest', (request, reply, done) => {
      reply.headers(responseHeaders(request.id))
      done()
    })
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to anything but bytes, which are
    // written as a piece of their own and cost a refusal a tenth more.
    app.addHook('onSend', (_, reply, payload, done) => {
      if (reply.getHeader('content-type') === jsonWithCharset) reply.header('content-type', json)
      done(null, payload)
    })
  },
  { name: 'response-headers' }
)
