/** The server of an application: what Node and Fastify would respond to by themselves goes to our handlers. */
import type { Server } from 'node:http'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  LogController
} from 'fastify'
import connections, { type ConnectionsOptions } from '../connections/connections.ts'
import shutdown from '../connections/shutdown.ts'
import { Failure, responseHeaders, toFailure, toResponse } from '../failures/failure.ts'
import { releaseHead } from './head.ts'
import methods, { noPath } from './methods.ts'
import protocol from './protocol.ts'
import { identifyRequest } from './request-log.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The failure that was sent; null for a success. */
    failure: Failure | null
  }
}

interface Options extends ConnectionsOptions, FastifyHttpOptions<Server> {
  /** Sees each request before anything else does. */
  first?: FastifyPluginAsync | undefined
}

const noQuery = {}
/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Makes an application without routes that logs here, with all that any request and any connection needs. */
export async function createServer(
  logger: FastifyBaseLogger,
  { first, headersTimeoutMs, requestTimeoutMs, maxConnections, ...others }: Options
) {
  const app: FastifyInstance = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: ({ headers }) => identifyRequest(headers),
    // The router would take OPTIONS * for the root.
    rewriteUrl: ({ url = '' }) => (url === '*' ? noPath : url.replace(absoluteForm, '')),
    // No route takes a query. Parsed, one of 16 kB would be an object ten times as large.
    routerOptions: { querystringParser: () => noQuery },
    http: { requireHostHeader: false, connectionsCheckingInterval: 500 },
    return503OnClosing: false,
    frameworkErrors: (_, request, reply): void => app.rejectBadUrl(request, reply),
    clientErrorHandler: (error, socket) => app.rejectUnreadable(error, socket),
    ...others
  })
  if (first) await app.register(first)
  addHeaders(app)
  app.decorateRequest('failure', null)
  app.setErrorHandler(sendFailure)
  app.setNotFoundHandler((request, reply) => sendFailure(new Failure('NotFound'), request, reply))
  await app.register(connections, { headersTimeoutMs, requestTimeoutMs, maxConnections })
  await app.register(protocol)
  await app.register(shutdown)
  await app.register(methods)
  return app
}

const json = 'application/json'
/** What Fastify turns it into. */
const jsonWithCharset = 'application/json; charset=utf-8'
/** So long a text is written as bytes, in a piece of its own. */
const largeLength = 4_096

/** Adds the header fields of every response of Fastify. */
function addHeaders(app: FastifyInstance) {
  // Before all other hooks, so that the response of one that refuses has them, and a handler can replace them.
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
