/** HTTP before the routes: what Node would respond to by itself, and every request's header. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { METHODS } from 'node:http'
import fp from 'fastify-plugin'
import { awaits100, type Connection } from '../connections/connection.ts'
import { checkHead, maximumFields } from './head.ts'
import { findForwardedFor, findTraceId } from './request-log.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Its connection; undefined for an injected request. */
    connection: Connection | undefined
    /** Its client may wait for 100 before it sends the body. */
    awaits100: boolean
    /** The trace id of its `traceparent`, 32 hex digits. */
    traceId: string | undefined
    /** The address that it came from, and those that it came through, as its `X-Forwarded-For` says. */
    client: string | undefined
    forwardedFor: string | undefined
  }
}

const methods = new Set(METHODS)
const ignore = () => {}

export default fp(
  async (app) => {
    const { server, connections } = app
    // Node silently drops the fields beyond this count, the token perhaps among them. One more than the limit is kept, so
    // that too many are noticed.
    server.maxHeadersCount = maximumFields + 1

    server.prependListener('request', (request: IncomingMessage) => {
      request.on('error', ignore)
      // The parser knows methods of HTTP/2 and RTSP, too. After PRI, Node would destroy the connection with the responses
      // that it still owes. For the others, Fastify has no response.
      if (!methods.has(request.method as string)) request.method = 'UNLINK'
    })
    // Node would respond to both at once. They are judged later, after the requests before them.
    server.on('checkContinue', (request, response) => server.emit('request', request, response))
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))

    app.decorateRequest('connection', undefined)
    app.decorateRequest('awaits100', false)
    app.decorateRequest('traceId', undefined)
    app.decorateRequest('client', undefined)
    app.decorateRequest('forwardedFor', undefined)
    app.addHook('onRequest', (request, reply, done) => {
      const { raw } = request
      const connection = connections.get(raw.socket)
      // After the last response of its connection, a request gets none, and must not be carried out.
      if (!(connection?.owes(reply.raw) ?? !raw.socket.destroyed)) {
        reply.hijack()
        return
      }
      request.connection = connection
      request.awaits100 = awaits100(raw)
      request.traceId = findTraceId(raw.headers)
      request.client = raw.socket.remoteAddress
      request.forwardedFor = findForwardedFor(raw.headers)
      connection?.attach(reply.raw, reply)
      done(checkHead(raw))
    })
    app.addHook('preParsing', ({ raw, connection, awaits100 }, reply, _, done) => {
      const failure = connection?.failureOf(raw)
      if (failure === undefined && awaits100) inviteBody(reply.raw)
      done(failure)
    })
  },
  { name: 'protocol', dependencies: ['connections'] }
)

/** Sends 100 (RFC 9110, section 10.1.1) after the responses before it: Node would write it into the middle of one. */
function inviteBody(response: ServerResponse) {
  if (response.socket !== null) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}
