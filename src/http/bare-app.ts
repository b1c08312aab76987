/** An application without routes: what Node and Fastify would respond to by themselves goes to our handlers. */
import { type IncomingMessage, METHODS, maxHeaderSize } from 'node:http'
import type { Socket } from 'node:net'
import { finished } from 'node:stream'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  LogController
} from 'fastify'
import type { Config } from '../config.ts'
import { Failure, failureOf, toResponse } from '../failures.ts'
import { Connections, responseHeaders } from './connections.ts'
import { awaitsContinue, checkHead, identifyRequest } from './head.ts'
import { jsonType } from './json.ts'
import { decidePersistence } from './persistence.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The open connections of its server. */
    connections: Connections
    /** All routes but those that reject other methods. `isApi`: it has a tag, and so is in the document. */
    routes: { method: string; url: string; isApi: boolean }[]
    /** Rejects every other method of the paths with MethodNotAllowed. Call it when all routes are registered. */
    rejectOtherMethods(): void
  }
  interface FastifyRequest {
    /** The failure that is sent; null for a success. */
    failure: Failure | null
  }
}

/**
 * Makes an application without routes, with all that its connections and requests need whatever the route. Its server emits
 * `replied` with a reply that was sent or given up, and whether it was sent; not for injected requests. The hooks of the
 * plugin `first` run before all others.
 */
export async function createBareApp(
  logger: FastifyBaseLogger,
  limits: Config['connectionLimits'],
  first?: FastifyPluginAsync
) {
  const connections = new Connections()
  const app: FastifyInstance = Fastify({
    serverFactory: (handle) => connections.createServer(handle, limits),
    clientErrorHandler: (error, socket) => connections.refuseUnreadable(error, socket),
    return503OnClosing: false,
    // It would end the close, too, which takes as long as a request may.
    pluginTimeout: 0,
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A child logger for each request would cost more than the line of a success, which is written without one.
    childLoggerFactory: (base) => base,
    genReqId: ({ headers }) => identifyRequest(headers),
    rewriteUrl: ({ url = '' }) => toRoutable(url),
    // To a longer parameter of a path, Fastify would respond by itself.
    routerOptions: { maxParamLength: maxHeaderSize }
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
const unroutable = '/ '
/** RFC 9112, section 3.2.2: a server accepts the absolute form of a request target. */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Returns the path to route, or `unroutable`. */
function toRoutable(url: string): string {
  // RFC 9112, section 3.2.4: `*` is the server itself, which no route is.
  const path = url === '*' ? '/*' : url.replace(absoluteForm, '')
  try {
    if (path.includes('%')) decodeURIComponent(path.split('?', 1)[0] as string)
  } catch {
    return unroutable
  }
  return path.startsWith('/') ? path : unroutable
}

/** Adds the hooks of every request, whatever its route: they check its header, and add its response's fields. */
function addHooks(app: FastifyInstance) {
  const waitForTurn = createTurns()
  app.decorateRequest('failure', null)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    reply.raw.on('close', () => {
      const isSent = reply.raw.writableFinished
      if (isSent && (request.failure || !request.caller)) waitForTurn(raw)
      app.server.emit('replied', reply, isSent)
    })
    // Set before anything can refuse the request, so that every response has them. A handler can replace them.
    reply.header('x-request-id', request.id).headers(responseHeaders)
    const failure = checkHead(raw)
    if (failure || !request.is404) return done(failure)
    // Decided here, since Fastify would read the body before it calls a handler.
    done(new Failure(request.url === unroutable ? 'MalformedRequest' : 'NotFound'))
  })
  app.addHook('preParsing', ({ raw }, reply, _, done) => {
    if (awaitsContinue(raw)) reply.raw.writeContinue()
    done(raw.complete ? undefined : app.connections.get(raw.socket)?.cutOffBy)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw } = request
    const connection = app.connections.get(raw.socket)
    // RFC 8259, section 11: the media type has no charset parameter. Fastify adds one to everything but bytes, which cost more.
    if (reply.getHeader('content-type') === `${jsonType}; charset=utf-8`)
      reply.header('content-type', jsonType)
    // Reads and drops the rest of a refused body: on a connection that is closed with unread bytes the response can be lost.
    if (!raw.complete) raw.resume()
    switch (decidePersistence(connection, raw, reply.raw, app.connections.isLeaving)) {
      case 'keep':
        // After a refused body Fastify asks to close, although the rest of the body is dropped.
        if (reply.hasHeader('connection')) reply.header('connection', 'keep-alive')
        return done(null, payload)
      case 'close':
        connection?.acceptNoMore()
        reply.header('connection', 'close')
        return done(null, payload)
      case 'close after the body':
        connection?.acceptNoMore()
        reply.header('connection', 'close')
        finished(raw, () => done(null, payload))
    }
  })
}

/**
 * How many connections may send again in each turn of the event loop, after a refusal or a response that belongs to no
 * operation. libuv ends a turn only when fewer than a thousand connections have something to read: clients that send again at
 * once would keep timers, the database's responses and new batches waiting for seconds.
 */
const perTurn = 32

/** Returns a function that makes the connection of such a request wait for its turn. */
function createTurns(): (request: IncomingMessage) => void {
  const waiting: Socket[] = []
  const resumeSome = () => {
    for (const socket of waiting.splice(0, perTurn)) socket.resume()
    if (waiting.length > 0) setImmediate(resumeSome)
  }
  return (request) => {
    const wait = () => {
      // It waits already, as with a pipeline.
      if (request.socket.isPaused()) return
      if (waiting.push(request.socket.pause()) === 1) setImmediate(resumeSome)
    }
    // Until a refused body has arrived completely, Node would resume the socket.
    if (request.complete) wait()
    else request.once('end', wait)
  }
}

/** Adds the list of routes, and what rejects other methods, CONNECT among them. */
function addMethods(app: FastifyInstance) {
  const routes: FastifyInstance['routes'] = []
  app.decorate('routes', routes)
  app.addHook('onRoute', ({ method, url, schema }) => {
    // Routes that reject have a list of methods.
    if (typeof method === 'string') routes.push({ method, url, isApi: schema?.tags !== undefined })
  })
  // Node's parser knows more methods than Fastify has routes for.
  for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
    app.addHttpMethod(method)
  app.decorate('rejectOtherMethods', () => {
    for (const url of new Set(routes.map((route) => route.url))) {
      // Asked of Fastify: it does not report each route of a plugin's root, such as /docs/.
      const own = app.supportedMethods.filter((method) => app.hasRoute({ method, url }))
      const others = app.supportedMethods.filter((method) => !own.includes(method))
      const reject = () => {
        throw rejection(own)
      }
      // In onRequest, so that the method is refused before Fastify reads the body.
      app.route({ method: others, url, onRequest: reject, handler: reject })
    }
  })
  // A CONNECT names no path, and Node has no response for it.
  app.server.on('connect', (_, socket: Socket) => {
    const own = routes.flatMap(({ method, isApi }) => (isApi ? method : []))
    app.connections.get(socket)?.refuse(rejection(own))
  })
}

const rejection = (allowed: string[]) =>
  new Failure('MethodNotAllowed', { headers: { allow: [...new Set(allowed)].sort().join(', ') } })

/** The one error handler: everything that is thrown becomes the interface's failure response. */
function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = failureOf(thrown)
  request.failure = failure
  const { status, headers, body } = toResponse(failure, request.method)
  return reply.code(status).headers(headers).header('content-type', jsonType).send(body)
}
