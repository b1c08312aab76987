/**
 * An application without routes. It has everything that a connection and a request go through,
 * whatever the route is. All responses come from our handlers: Node and Fastify send none of their
 * own.
 *
 * A connection is open at first (connections.ts). It is *over* once no further request on it will
 * be answered: a client asked to close, a request has an end that cannot be trusted, input could
 * not be parsed, or the server shuts down. When the last response has been sent, the server
 * half-closes, drops what still arrives, and closes after three seconds at the latest.
 *
 * A request takes these steps:
 *
 * 1. Node parses its header. Input that cannot be parsed, or that takes too long, goes to
 *    `Connection.refuse`. If the body of a request was arriving, that request fails. Otherwise
 *    `refuse` writes the failure itself, after the responses that are still due.
 * 2. `Connection.receive` records the request, or drops it if the connection is over.
 * 3. `onRequest` in this file checks the header (head.ts) and the path. Then the hooks of the route
 *    check the method or the token, the rate, and what the header says about the body (body.ts).
 * 4. `preParsing` sends 100 (Continue) to a client that waits for it. The body is read (body.ts,
 *    json.ts) and checked, and the handler runs.
 * 5. `onSend` decides whether the connection is kept (persistence.ts).
 * 6. When the response is sent or given up, the server emits `replied`, for the log and the
 *    metrics. A client that was refused waits for its turn before it can send again.
 *
 * A failure in step 3 or 4 skips the rest of these two steps: the error handler makes its response,
 * the rest of the body is read and dropped, and step 5 follows. A failure ends the request, and
 * ends the connection only if the next request on it could not be found.
 */
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
    /** The open connections of the application's server. */
    connections: Connections
    /**
     * All routes, except those that reject other methods. `isApi`: the route has a tag, so the
     * OpenAPI document has it.
     */
    routes: { method: string; url: string; isApi: boolean }[]
    /**
     * Makes each path reject all methods that it has no route for, with MethodNotAllowed. Call it
     * after all routes are registered.
     */
    rejectOtherMethods(): void
  }
  interface FastifyRequest {
    /** The failure that the response reports; null for a success. */
    failure: Failure | null
  }
}

/**
 * Makes an application without routes. The hooks of the plugin `first` run before all others. After
 * each response, the server emits `replied` with the reply, and with whether it was sent
 * completely. It emits nothing for injected requests.
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
    // The limit would also apply to closing the application, which takes as long as a request may
    // take.
    pluginTimeout: 0,
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    // Fastify would make a child logger for each request. That costs more than to log a success.
    childLoggerFactory: (base) => base,
    genReqId: ({ headers }) => identifyRequest(headers),
    rewriteUrl: ({ url = '' }) => toRoutable(url),
    // Fastify would send a response of its own for a path parameter that is longer than this.
    routerOptions: { maxParamLength: maxHeaderSize }
  })
  if (first) await app.register(first)
  app.decorate('connections', connections)
  app.addHook('preClose', () => connections.drain(app.server))
  addHooks(app)
  app.setErrorHandler(sendFailure)
  // Only a missing file of the docs' page gets here. The hook `onRequest` rejects all other unknown
  // paths.
  app.setNotFoundHandler(() => {
    throw new Failure('NotFound')
  })
  addMethods(app)
  return app
}

/**
 * This path replaces a request target that is not a path or cannot be decoded. For such a target,
 * Fastify would respond without running any hook.
 */
const unroutable = '/ '
/** A server must accept a whole URL as the request target (RFC 9112, section 3.2.2). */
const absoluteForm = /^https?:\/\/[^/?]+(?=\/)/i

/** Returns the path that the router gets for a request target: `unroutable` if there is none. */
function toRoutable(url: string): string {
  // The target `*` is the server itself (RFC 9112, section 3.2.4). No route has it.
  const path = url === '*' ? '/*' : url.replace(absoluteForm, '')
  try {
    if (path.includes('%')) decodeURIComponent(path.split('?', 1)[0] as string)
  } catch {
    return unroutable
  }
  return path.startsWith('/') ? path : unroutable
}

/** Adds the hooks that run for every request, whatever its route is: steps 3 to 6 above. */
function addHooks(app: FastifyInstance) {
  const waitForTurn = createTurns()
  app.decorateRequest('failure', null)
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    reply.raw.on('close', () => {
      const isSent = reply.raw.writableFinished
      // `perTurn` says why these connections wait.
      if (isSent && (request.failure || !request.caller)) waitForTurn(raw)
      app.server.emit('replied', reply, isSent)
    })
    // Set these before any check, so that the response to a refused request has them. A handler can
    // replace them.
    reply.header('x-request-id', request.id).headers(responseHeaders)
    const failure = checkHead(raw)
    if (failure || !request.is404) return done(failure)
    // Reject an unknown path in this hook: Fastify reads the body before it calls the handler for
    // unknown paths.
    done(new Failure(request.url === unroutable ? 'MalformedRequest' : 'NotFound'))
  })
  app.addHook('preParsing', ({ raw }, reply, _, done) => {
    if (awaitsContinue(raw)) reply.raw.writeContinue()
    // If the request was cut off before its body was being read, nobody heard the error that
    // `refuse` emitted.
    done(raw.complete ? undefined : app.connections.get(raw.socket)?.cutOffBy)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { raw } = request
    const connection = app.connections.get(raw.socket)
    // The media type of JSON has no charset parameter (RFC 8259, section 11). Fastify adds one
    // unless the payload is bytes, and to make bytes of a text would cost more.
    if (reply.getHeader('content-type') === `${jsonType}; charset=utf-8`)
      reply.header('content-type', jsonType)
    // Read and drop the rest of a refused body. If the connection closed with unread bytes, the
    // client would get a reset, and could lose the response.
    if (!raw.complete) raw.resume()
    switch (decidePersistence(connection, raw, reply.raw, app.connections.isLeaving)) {
      case 'keep':
        // After a refused body, Fastify asks to close. That is not needed, as the rest of the body
        // is dropped.
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
 * After a refusal, or after a response that needs no token, a connection waits until it may send
 * again. This many connections may do so in each turn of the event loop. While libuv finds 1,024
 * events at once, it polls again before the turn ends, up to 48 times. Without the wait, clients
 * that send again at once would hold up timers, the database's responses and new batches for
 * seconds.
 */
const perTurn = 32

/** Returns a function that makes the connection of a request wait for its turn. */
function createTurns(): (request: IncomingMessage) => void {
  const waiting: Socket[] = []
  const resumeSome = () => {
    for (const socket of waiting.splice(0, perTurn)) socket.resume()
    if (waiting.length > 0) setImmediate(resumeSome)
  }
  return (request) => {
    const wait = () => {
      // With pipelining, an earlier response on this connection can have paused it already.
      if (request.socket.isPaused()) return
      if (waiting.push(request.socket.pause()) === 1) setImmediate(resumeSome)
    }
    // While the rest of a refused body arrives, Node would resume the socket: pause it afterwards.
    if (request.complete) wait()
    else request.once('end', wait)
  }
}

/** Adds the list of routes, and `rejectOtherMethods`. Rejects CONNECT. */
function addMethods(app: FastifyInstance) {
  const routes: FastifyInstance['routes'] = []
  app.decorate('routes', routes)
  app.addHook('onRoute', ({ method, url, schema }) => {
    // The routes that reject other methods have a list of methods, so they are left out.
    if (typeof method === 'string') routes.push({ method, url, isApi: schema?.tags !== undefined })
  })
  // Fastify has no routes for some methods that Node's parser accepts. Add these methods, so that
  // they can be rejected, too.
  for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
    app.addHttpMethod(method)
  app.decorate('rejectOtherMethods', () => {
    for (const url of new Set(routes.map((route) => route.url))) {
      // Ask Fastify which methods the path has: `onRoute` is not called for each route of a
      // plugin's root, such as /docs/.
      const own = app.supportedMethods.filter((method) => app.hasRoute({ method, url }))
      const others = app.supportedMethods.filter((method) => !own.includes(method))
      const reject = () => {
        throw rejection(own)
      }
      // Reject in onRequest, before Fastify reads the body.
      app.route({ method: others, url, onRequest: reject, handler: reject })
    }
  })
  // A CONNECT has no path to route. Without a listener, Node would close its connection without a
  // response.
  app.server.on('connect', (_, socket: Socket) => {
    const own = routes.flatMap(({ method, isApi }) => (isApi ? method : []))
    app.connections.get(socket)?.refuse(rejection(own))
  })
}

const rejection = (allowed: string[]) =>
  new Failure('MethodNotAllowed', { headers: { allow: [...new Set(allowed)].sort().join(', ') } })

/** The only error handler. It turns everything that is thrown into the response of a failure. */
function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = failureOf(thrown)
  request.failure = failure
  const { status, headers, body } = toResponse(failure, request.method)
  return reply.code(status).headers(headers).header('content-type', jsonType).send(body)
}
