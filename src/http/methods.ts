/** The routes with their declarations, and the requests that meet none: of an unknown path or of another method. */
import type { IncomingMessage } from 'node:http'
import { METHODS } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route's requests can meet, besides the failures of the catalogue that have a scope. */
    failures?: readonly FailureName[]
    /** The route is no part of the interface, and not in its OpenAPI document. */
    isInternal?: true
  }
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
  readonly failures: readonly FailureName[]
  readonly isInternal: boolean
}

/** A path that no route can have. */
export const noPath = '//'

export default fp(
  async (app) => {
    const routes: Route[] = []
    let isComplete = false
    app.decorate('routes', routes)
    app.addHook('onRoute', ({ method, url, config: { failures = [], isInternal = false } = {} }) => {
      if (isComplete) return
      for (const one of [method].flat()) routes.push({ method: one, url, failures, isInternal })
    })

    const badUrls = new WeakSet<IncomingMessage>()
    app.decorate('rejectBadUrl', ({ raw: request }, { raw: response }) => {
      badUrls.add(request)
      request.url = noPath
      app.routing(request, response)
    })
    // After the protocol's hook, and before Fastify reads and judges the body, which it does even for an unknown path.
    app.addHook('onRequest', (request, _, done) => {
      if (request.is404) done(new Failure(badUrls.has(request.raw) ? 'MalformedRequest' : 'NotFound'))
      else done()
    })

    // Node's parser knows more methods than Fastify has routes for.
    for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
      app.addHttpMethod(method)
    app.decorate('rejectOtherMethods', () => {
      isComplete = true
      for (const [url, ofPath] of Map.groupBy(routes, (route) => route.url)) {
        const allowed = ofPath.map(({ method }) => method).sort()
        // In onRequest, before anything else of the request is judged.
        const reject = () => {
          throw new Failure('MethodNotAllowed', { headers: { allow: allowed.join(', ') } })
        }
        const others = app.supportedMethods.filter((name) => !allowed.includes(name))
        const config = ofPath.some(({ isInternal }) => isInternal) ? { isInternal: true as const } : {}
        app.route({ method: others, url, config, onRequest: reject, handler: reject })
      }
    })
  },
  { name: 'methods', dependencies: ['protocol'] }
)
