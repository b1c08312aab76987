/** HTTP below the routes: what Node would answer by itself, and every request's header. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import { awaits100, type Connection } from '../connections/connection.ts'
import { Failure } from '../failures/failure.ts'
import { checkHead, findClient, maximumFields } from './head.ts'
import { findTraceId } from './request-log.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Its connection; undefined for what was injected. */
    connection: Connection | undefined
    /** Its client may wait for 100 before it sends the body. */
    awaits100: boolean
    /** The trace id of its `traceparent`, 32 hex digits. */
    traceId: string | undefined
    /** The address that it came from. */
    client: string | undefined
  }
}

const methods = new Set(METHODS)
const ignore = () => {}

export default fp(
  async (app) => {
    const { server, connections } = app
    // Node drops the fields beyond this count silently, the token among them: the first that is too many is kept.
    server.maxHeadersCount = maximumFields + 1

    server.prependListener('request', (request: IncomingMessage) => {
      request.on('error', ignore)
      // The parser knows methods of HTTP/2 and RTSP, too. After PRI Node would destroy the connection and all that it
      // owes, and for the others Fastify has no response.
      if (!methods.has(request.method as string)) request.method = 'UNLINK'
    })
    // Both are judged later, in their turn; Node would respond at once.
    server.on('checkContinue', (request, response) => server.emit('request', request, response))
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (_, socket: Socket) => {
      socket.resume()
      app.rejectConnection(socket, new Failure('MethodNotAllowed', { headers: { allow: 'POST' } }))
    })

    app.decorateRequest('connection', undefined)
    app.decorateRequest('awaits100', false)
    app.decorateRequest('traceId', undefined)
    app.decorateRequest('client', undefined)
    app.addHook('onRequest', (request, reply, done) => {
      const { raw } = request
      const connection = connections.get(raw.socket)
      // A request after the last response of its connection is owed none, and must not be carried out.
      if (!(connection?.owes(reply.raw) ?? !raw.socket.destroyed)) {
        reply.hijack()
        return
      }
      request.connection = connection
      request.awaits100 = awaits100(raw)
      request.traceId = findTraceId(raw.headers)
      request.client = findClient(request)
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

/** Sends 100 (RFC 9110, section 10.1.1) in its turn: Node would put it in the midst of a response that has to wait. */
function inviteBody(response: ServerResponse) {
  if (response.socket !== null) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}
