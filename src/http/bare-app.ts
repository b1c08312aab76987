/** An application without routes: what Node and Fastify would respond to by themselves goes to our handlers. */
import { type IncomingMessage, METHODS, type Server, type ServerResponse } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  LogController
} from 'fastify'
import { Failure, toFailure, toResponse } from '../failures.ts'
import { addConnections, type Connection, type ConnectionLimits, checkEveryMs } from './connections.ts'
import { checkHead, findForwardedFor, findTraceId, identifyRequest, maximumFields } from './head.ts'
import { addMethods } from './methods.ts'
import { responseHeaders } from './raw-response.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The failure that was sent; null for a success. */
    failure: Failure | null
    /** Its connection; undefined for an injected request. */
    connection: Connection | undefined
    /** Its client may wait for 100 before it sends the body. */
    awaits100: boolean
    /** The trace id of its `traceparent`, 32 hex digits. */
    traceId: string | undefined
    /** The addresses in its `X-Forwarded-For`. */
    forwardedFor: string | undefined
  }
}

interface Options extends FastifyHttpOptions<Server> {
  limits: ConnectionLimits
  /** A plugin whose hooks run before all others. */
  first?: FastifyPluginAsync | undefined
}

/** The query of each request. */
const nothing = {}

/**
 * Makes an application without routes, with all that its connections and requests need whatever the route. Its server emits
 * `replied` with a reply that was sent or given up, and whether it was sent; not for injected requests.
 */
export async function createBareApp(logger: FastifyBaseLogger, { first, limits, ...others }: Options) {
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger for each request would cost more than the line of a success, which is written without one. So lines
    // that Fastify itself writes, such as that of a response sent twice, have no requestId.
    childLoggerFactory: (base) => base,
    genReqId: ({ headers }) => identifyRequest(headers),
    rewriteUrl: ({ url = '' }) => toRoutable(url),
    // No route takes a query. The length of a parameter is checked by its schema.
    routerOptions: { querystringParser: () => nothing, maxParamLength: Number.MAX_SAFE_INTEGER },
    http: { requireHostHeader: false, connectionsCheckingInterval: checkEveryMs },
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeout,
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => rejectUnreadable(error, socket),
    ...others
  })
  if (first) await app.register(first)
  const { reject, rejectUnreadable } = addConnections(app, limits)
  respondInPlaceOfNode(app)
  addHooks(app)
  app.setErrorHandler(sendFailure)
  // For a file of the docs' page that is not there: hooks decide about all other paths.
  app.setNotFoundHandler(() => {
    throw new Failure('NotFound')
  })
  addMethods(app, reject)
  return app
}

/** A path that no route can have. */
const noPath = '//'
/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Returns the path to route: for one that is malformed Fastify would run no hooks, and `*` would be the root. */
function toRoutable(url: string): string {
  const path = url.replace(absoluteForm, '')
  return path.startsWith('/') && isWellFormed(path) ? path : noPath
}

/** Returns whether a request target is a path that can be decoded, or `*` (RFC 9112, section 3.2). */
function isWellFormed(url: string): boolean {
  const [path = ''] = url.replace(absoluteForm, '').split('?')
  try {
    return path === '*' || (path.includes('%') ? decodeURIComponent(path) : path).startsWith('/')
  } catch {
    return false
  }
}

const knownMethods = new Set(METHODS)
/** Requests that came after the last response of their connection. */
const ignored = new WeakSet<IncomingMessage>()

/** Passes requests on to Fastify that Node would respond to by itself. */
function respondInPlaceOfNode({ server, connections }: FastifyInstance) {
  // Node silently drops the fields beyond this count, perhaps the token. One more than the limit is kept, so that too
  // many are noticed.
  server.maxHeadersCount = maximumFields + 1
  server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
    // A client that resets while its body arrives.
    request.on('error', () => {})
    // Node's parser knows methods of RTSP, too, to which Fastify does not respond. No route has UNLINK.
    if (!knownMethods.has(request.method as string)) request.method = 'UNLINK'
    if (connections.bySocket.get(request.socket)?.receive(request, response) !== true) ignored.add(request)
  })
  // Node would respond to both at once, before the requests that came before them. Our hooks decide about them in their turn.
  for (const event of ['checkContinue', 'checkExpectation'])
    server.on(event, (request, response) => server.emit('request', request, response))
}

const json = 'application/json'

/** Adds the hooks of every request, whatever its route: they check its header, and add its response's fields. */
function addHooks(app: FastifyInstance) {
  app.decorateRequest('failure', null)
  app.decorateRequest('awaits100', false)
  for (const name of ['connection', 'traceId', 'forwardedFor'] as const) app.decorateRequest(name, undefined)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    // It gets no response, and must not be carried out.
    if (ignored.has(raw) || raw.socket.destroyed) return void reply.hijack()
    request.connection = app.connections.bySocket.get(raw.socket)
    // HTTP/1.0 has no 100 (RFC 9110, section 10.1.1).
    request.awaits100 = raw.headers.expect !== undefined && raw.httpVersion === '1.1'
    reply.raw.on('close', () => {
      app.server.emit('replied', reply, reply.raw.writableFinished)
    })
    // Set before anything can refuse the request, so that every response has them. A handler can replace them.
    reply.header('x-request-id', request.id).headers(responseHeaders)
    request.traceId = findTraceId(raw.headers)
    request.forwardedFor = findForwardedFor(raw.headers)
    const failure = checkHead(raw)
    if (failure || !request.is404) return done(failure)
    // Decided here, since Fastify would read the body before it calls a handler.
    done(new Failure(isWellFormed(request.originalUrl) ? 'NotFound' : 'MalformedRequest'))
  })
  app.addHook('preParsing', ({ awaits100 }, reply, _, done) => {
    if (awaits100) inviteBody(reply.raw)
    done()
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw, awaits100 } = request
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to everything but bytes. Sending
    // bytes would make a refusal a tenth more expensive, since they are written as a piece of their own.
    if (reply.getHeader('content-type') === `${json}; charset=utf-8`) reply.header('content-type', json)
    // Reads and drops the rest of a refused body: on a connection that is closed with unread bytes the response can be lost.
    if (!raw.complete) raw.resume()
    const field = findConnectionField(app, request, reply)
    // Fastify itself asks to close after a refused body and during a shutdown.
    if (field !== undefined) reply.header('connection', field)
    else if (reply.hasHeader('connection')) reply.removeHeader('connection')
    // Node closes after such a response, or after one to a client that asks for it: the body must have arrived.
    const isLast = field === 'close' || !reply.raw.shouldKeepAlive
    const hasArrived = raw.complete || request.connection?.failureOf(raw) !== undefined
    if (hasArrived || awaits100 || !isLast) return done(null, payload)
    const send = () => {
      raw.off('end', send).off('cut off', send)
      done(null, payload)
    }
    raw.on('end', send).on('cut off', send)
  })
}

/** Returns the `connection` field of a response, or undefined where Node's own is right (RFC 9112, section 9.3). */
function findConnectionField({ connections }: FastifyInstance, request: FastifyRequest, reply: FastifyReply) {
  const { raw, connection, awaits100 } = request
  // A client that is refused before its 100 may send the body or not, so what follows could be a body or a request.
  const mustEnd = connections.isLeaving || (awaits100 && !raw.complete)
  if (connection?.endIfLast(raw, mustEnd)) return 'close'
  if (!reply.raw.shouldKeepAlive) return undefined
  // Node would close after a body that was sent without waiting for 100, and lose the later responses. A client of HTTP/1.0
  // closes unless it is told otherwise.
  return awaits100 || raw.httpVersion === '1.0' ? 'keep-alive' : undefined
}

/** Sends 100 (RFC 9110, section 10.1.1) after the responses before it: Node itself could write it into the middle of one. */
function inviteBody(response: ServerResponse) {
  if (response.socket !== null) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}

/** The one error handler: everything that is thrown becomes the interface's failure response. */
function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = toFailure(thrown)
  request.failure = failure
  // Its client can be slow to read the response.
  request.body = undefined
  const { status, headers, body } = toResponse(failure)
  return reply.code(status).headers(headers).header('content-type', json).send(body)
}
