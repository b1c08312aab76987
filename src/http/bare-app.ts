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
import { addConnections } from '../connections/add-connections.ts'
import type { Connection } from '../connections/connection.ts'
import type { ConnectionLimits } from '../connections/connections.ts'
import { Failure, toFailure, toResponse } from '../failures/failure.ts'
import { awaits100 } from '../shared/framing.ts'
import { responseHeaders } from '../shared/response-headers.ts'
import { findForwardedFor, findTraceId, identifyRequest } from '../telemetry/identity.ts'
import { findConnectionField } from './connection-field.ts'
import { checkHead, maximumFields, releaseHead } from './head.ts'
import { addMethods } from './methods.ts'

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
    /** The id of the trace that its duration refers to; undefined where it is not traced. */
    exemplar: string | undefined
    /** The addresses in its `X-Forwarded-For`. */
    forwardedFor: string | undefined
  }
}

interface Options extends ConnectionLimits, Omit<FastifyHttpOptions<Server>, 'keepAliveTimeout'> {
  /** A plugin whose hooks run before all others. */
  first?: FastifyPluginAsync | undefined
}

/** A path that no route can have. */
const noPath = '//'
/** Requests whose path cannot be decoded. */
const undecodable = new WeakSet<IncomingMessage>()
/** The query and, once a response is sent, the parameters of each request. */
const nothing = {}
/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Makes an application without routes, with all that its connections and requests need whatever the route. */
export async function createBareApp(
  logger: FastifyBaseLogger,
  { first, headersTimeoutMs, requestTimeoutMs, keepAliveTimeout, maxConnections, ...others }: Options
) {
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger for each request would cost more than the line of a success, which is written without one. So lines
    // that Fastify itself writes, such as that of a response sent twice, have no requestId.
    childLoggerFactory: (base) => base,
    genReqId: ({ headers }) => identifyRequest(headers),
    // The router would take OPTIONS * for the root.
    rewriteUrl: ({ url = '' }) => (url === '*' ? noPath : url.replace(absoluteForm, '')),
    // No route takes a query: parsed, one of 16 kB would be an object ten times as large. The length of a parameter is checked
    // by its schema.
    routerOptions: { querystringParser: () => nothing, maxParamLength: Number.MAX_SAFE_INTEGER },
    http: { requireHostHeader: false },
    return503OnClosing: false,
    // For a path that cannot be decoded, Fastify would run no hooks. So the request is routed again, to a path without a route.
    frameworkErrors: (_, { raw: request }, { raw: response }) => {
      undecodable.add(request)
      request.url = noPath
      app.routing(request, response)
    },
    clientErrorHandler: (error, socket) => rejectUnreadable(error, socket),
    ...others
  })
  if (first) await app.register(first)
  const limits = { headersTimeoutMs, requestTimeoutMs, keepAliveTimeout, maxConnections }
  respondInPlaceOfNode(app)
  const { rejectConnection, rejectUnreadable } = addConnections(app, limits)
  addHooks(app)
  app.setErrorHandler(sendFailure)
  addMethods(app, rejectConnection)
  return app
}

const ignore = () => {}
const knownMethods = new Set(METHODS)

/** Passes requests on to Fastify that Node would respond to by itself. */
function respondInPlaceOfNode({ server }: FastifyInstance) {
  // Node silently drops the fields beyond this count, perhaps the token. One more than the limit is kept, so that too
  // many are noticed.
  server.maxHeadersCount = maximumFields + 1
  server.prependListener('request', (request: IncomingMessage) => {
    request.on('error', ignore)
    // The parser knows methods of HTTP/2 and RTSP, too. After PRI, Node would destroy the connection with its pending
    // responses, and Fastify responds to none of the others. So each becomes UNLINK, which Fastify knows and no route has.
    if (!knownMethods.has(request.method as string)) request.method = 'UNLINK'
  })
  // Node would respond to both at once, before the requests that came before them. Our hooks decide about them in their turn.
  for (const event of ['checkContinue', 'checkExpectation'])
    server.on(event, (request, response) => server.emit('request', request, response))
}

const json = 'application/json'
/** A response of more characters is sent as bytes, in a piece of its own. */
const largeLength = 4_096

/** Adds the hooks of every request, whatever its route: they check its header, and add its response's fields. */
function addHooks(app: FastifyInstance) {
  app.decorateRequest('failure', null)
  app.decorateRequest('awaits100', false)
  for (const name of ['connection', 'traceId', 'exemplar', 'forwardedFor'] as const)
    app.decorateRequest(name, undefined)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    const connection = app.connections.bySocket.get(raw.socket)
    // An injected request has no connection, unless its own was destroyed.
    const isOwed = connection ? connection.attach(reply) : !raw.socket.destroyed
    // A request that came after the last response of its connection gets none, and must not be carried out.
    if (!isOwed) {
      reply.hijack()
      return
    }
    request.connection = connection
    request.awaits100 = awaits100(raw)
    // Set before anything can refuse the request, so that every response has them. A handler can replace them.
    reply.header('x-request-id', request.id).headers(responseHeaders)
    request.traceId = findTraceId(raw.headers)
    request.forwardedFor = findForwardedFor(raw.headers)
    const failure = checkHead(raw)
    if (failure || !request.is404) return done(failure)
    // Decided here, since Fastify would read the body before it calls a handler.
    done(new Failure(undecodable.has(raw) ? 'MalformedRequest' : 'NotFound'))
  })
  app.addHook('preParsing', ({ raw, connection, awaits100 }, reply, _, done) => {
    const failure = connection?.failureOf(raw)
    if (failure === undefined && awaits100) inviteBody(reply.raw)
    done(failure)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw, connection, awaits100 } = request
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to everything but bytes. Sending
    // bytes would make a refusal a tenth more expensive, since they are written as a piece of their own.
    if (reply.getHeader('content-type') === `${json}; charset=utf-8`) reply.header('content-type', json)
    // A slow client may take long to read the response.
    releaseHead(request)
    request.params = nothing
    if (!raw.complete || raw.readableLength > 0) dropBody(raw, connection)
    // A client that is refused before its 100 may send the body or not, so what follows could be a body or a request.
    const isLast = connection?.endIfLast(raw, awaits100 && !raw.complete) === true
    // Fastify itself asks to close after a refused body, which may reset the connection, and during a shutdown, which would lose
    // later responses.
    if (reply.hasHeader('connection') || app.connections.state.phase !== 'serving')
      reply.removeHeader('connection')
    const field = findConnectionField(isLast, reply.raw.shouldKeepAlive, awaits100, raw.httpVersion)
    if (field !== undefined) reply.header('connection', field)
    // A text that waits in the connection can take twice its bytes.
    const isLarge = typeof payload === 'string' && payload.length > largeLength
    done(null, isLarge ? Buffer.from(payload) : payload)
  })
}

/**
 * A chunk of fewer bytes costs more to parse than to receive. The connection itself cuts chunks into pieces (findPieceBytes):
 * for a lone request without a token into 48 bytes, which are not small; behind others into less, which count as small.
 */
const smallBytes = 32
/** How many small chunks of a refused body are parsed before its connection ends. */
const maximumSmallChunks = 1_000

/** Reads and drops the rest of a refused body. Each chunk costs the parser a call, so too many small ones end the connection. */
function dropBody(raw: IncomingMessage, connection: Connection | undefined) {
  let small = 0
  raw.on('data', ({ length }: Buffer) => {
    if (length < smallBytes && ++small > maximumSmallChunks) connection?.stopReading()
  })
  raw.resume()
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
  const { status, headers, body } = toResponse(failure, request.operation?.writes)
  return reply.code(status).headers(headers).header('content-type', json).send(body)
}
