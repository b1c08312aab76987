/** An application without routes: what Node and Fastify would respond to by themselves goes to our handlers. */
import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  LogController
} from 'fastify'
import { Failure, toFailure, toResponse } from '../failures.ts'
import { type Connection, type ConnectionLimits, Connections } from './connections.ts'
import { checkHead, identifyRequest } from './head.ts'
import { addMethods } from './methods.ts'
import { responseHeaders } from './raw-response.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The open connections of its server. */
    connections: Connections
  }
  interface FastifyRequest {
    /** The failure that was sent; null for a success. */
    failure: Failure | null
    /** Its connection; undefined for an injected request. */
    connection: Connection | undefined
  }
}

/**
 * Makes an application without routes, with all that its connections and requests need whatever the route. Its server emits
 * `replied` with a reply that was sent or given up, and whether it was sent; not for injected requests. The hooks of the
 * plugin `first` run before all others.
 */
export async function createBareApp(
  logger: FastifyBaseLogger,
  limits: ConnectionLimits,
  first?: FastifyPluginAsync
) {
  const connections = new Connections(limits)
  const app: FastifyInstance = Fastify({
    serverFactory: (handle) => connections.createServer(handle),
    clientErrorHandler: (error, socket) => connections.refuseUnreadable(error, socket),
    return503OnClosing: false,
    // It would end the close, too, which takes as long as a request may.
    pluginTimeout: 0,
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger for each request would cost more than the line of a success, which is written without one.
    childLoggerFactory: (base) => base,
    genReqId: ({ headers }) => identifyRequest(headers),
    rewriteUrl: ({ url = '' }) => toRoutable(url)
  })
  if (first) await app.register(first)
  app.decorate('connections', connections)
  app.addHook('preClose', () => connections.drain(app.server))
  addHooks(app)
  app.setErrorHandler(sendFailure)
  // For a file of the docs' page that is not there: hooks decide about all other paths.
  app.setNotFoundHandler(() => {
    throw new Failure('NotFound')
  })
  addMethods(app)
  return app
}

/** Takes the place of a request target that is no path, or cannot be decoded: for these Fastify would run no hooks. */
const malformed = '/ '
/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Returns the path to route, or `malformed`. */
function toRoutable(url: string): string {
  // RFC 9112, section 3.2.4: `*` is the server itself, which no route is.
  const path = url === '*' ? '/*' : url.replace(absoluteForm, '')
  try {
    if (path.includes('%')) decodeURIComponent(path.split('?', 1)[0] as string)
  } catch {
    return malformed
  }
  return path.startsWith('/') ? path : malformed
}

const json = 'application/json'

/** Returns whether a client may wait for 100 before it sends the body. HTTP/1.0 has none (RFC 9110, section 10.1.1). */
const awaits100 = ({ headers, httpVersion }: IncomingMessage) => !!headers.expect && httpVersion === '1.1'

/** Adds the hooks of every request, whatever its route: they check its header, and add its response's fields. */
function addHooks(app: FastifyInstance) {
  app.decorateRequest('failure', null)
  app.decorateRequest('connection', undefined)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    request.connection = app.connections.get(raw.socket)
    reply.raw.on('close', () => {
      const isSent = reply.raw.writableFinished
      if (isSent && (request.failure || !request.caller)) app.connections.backpressure.recordRefusal(request)
      app.server.emit('replied', reply, isSent)
    })
    // Set before anything can refuse the request, so that every response has them. A handler can replace them.
    reply.header('x-request-id', request.id).headers(responseHeaders)
    const failure = checkHead(raw)
    if (failure || !request.is404) return done(failure)
    // Decided here, since Fastify would read the body before it calls a handler.
    done(new Failure(request.url === malformed ? 'MalformedRequest' : 'NotFound'))
  })
  app.addHook('preParsing', ({ raw, connection }, reply, _, done) => {
    if (awaits100(raw)) reply.raw.writeContinue()
    done(connection?.failureOf(raw))
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw, connection } = request
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to everything but bytes, which cost more.
    if (reply.getHeader('content-type') === `${json}; charset=utf-8`) reply.header('content-type', json)
    // Reads and drops the rest of a refused body: on a connection that is closed with unread bytes the response can be lost.
    if (!raw.complete) raw.resume()
    // A client that is refused before its 100 may send the body or not, so what follows could be a body or a request.
    const isLast = connection?.endIfLast(raw, app.connections.isLeaving || (awaits100(raw) && !raw.complete))
    const mayGoOn = !isLast && reply.raw.shouldKeepAlive
    // Fastify itself asks to close after a refused body. Without this field, Node adds it.
    if (isLast || reply.hasHeader('connection')) reply.header('connection', mayGoOn ? 'keep-alive' : 'close')
    // Node closes after such a response, or after one to a client that asks for it: the body must have arrived.
    if (mayGoOn || raw.complete || connection?.failureOf(raw) || awaits100(raw)) return done(null, payload)
    finished(raw, () => done(null, payload))
  })
}

/** The one error handler: everything that is thrown becomes the interface's failure response. */
function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = toFailure(thrown)
  request.failure = failure
  const { status, headers, body } = toResponse(failure)
  return reply.code(status).headers(headers).header('content-type', json).send(body)
}
