/** The routes with their declarations, and the requests that meet none: of an unknown path or of another method. */
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures/failure.ts'
import type { RegisteredOperation } from './operation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The routes of this server. */
    routes: readonly Route[]
    /** Rejects every other method of the paths with MethodNotAllowed. Call it when all routes are registered. */
    rejectOtherMethods(): void
    /** Rejects a request whose path cannot be decoded; Fastify itself would run no hooks for it. */
    rejectBadUrl(request: FastifyRequest, reply: FastifyReply): void
  }
}

/** A registered route. */
interface Route {
  readonly method: string
  readonly url: string
  readonly operation: RegisteredOperation | undefined
}

/** A path that no route can have. */
export const noPath = '//'
/** What stands for a path that cannot be decoded: no client can send a space in one. */
const badPath = '/ /'

const rejectMethod = (routes: Route[]) => {
  const allow = [...new Set(routes.map(({ method }) => method))].sort().join(', ')
  return new Failure('MethodNotAllowed', { headers: { allow } })
}

export default fp(
  async (app) => {
    const routes: Route[] = []
    let isComplete = false
    app.decorate('routes', routes)
    app.addHook('onRoute', ({ method, url, config }) => {
      if (isComplete) return
      for (const one of [method].flat()) routes.push({ method: one, url, operation: config?.operation })
    })

    app.decorate('rejectBadUrl', ({ raw: request }, { raw: response }) => {
      request.url = badPath
      app.routing(request, response)
    })
    // After the protocol's hook, and before Fastify reads and judges the body, which it does even for an unknown path.
    app.addHook('onRequest', (request, _, done) => {
      if (request.is404) done(new Failure(request.raw.url === badPath ? 'MalformedRequest' : 'NotFound'))
      else done()
    })

    // Node's parser knows more methods than Fastify has routes for.
    for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
      app.addHttpMethod(method)
    app.decorate('rejectOtherMethods', () => {
      isComplete = true
      for (const [url, ofPath] of Map.groupBy(routes, (route) => route.url)) {
        // In onRequest, before anything else of the request is judged.
        const reject = () => {
          throw rejectMethod(ofPath)
        }
        const others = app.supportedMethods.filter((name) => ofPath.every(({ method }) => method !== name))
        app.route({ method: others, url, config: { isInternal: true }, onRequest: reject, handler: reject })
      }
    })
    // It names no path.
    app.server.on('connect', (_, socket: Socket) => {
      socket.resume()
      app.rejectConnection(socket, rejectMethod(routes.filter(({ operation }) => operation)))
    })
  },
  { name: 'methods', dependencies: ['protocol'] }
)
