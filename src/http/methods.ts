/** The routes with their declarations, and the methods that their paths do not have. */
import { METHODS } from 'node:http'
import fp from 'fastify-plugin'
import type { FailureName } from '../failures/catalogue.ts'
import { Failure } from '../failures/failure.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route's requests can meet, beside the failures of the catalogue that have a scope. */
    failures?: readonly FailureName[]
    /** The route is no part of the interface, and not in its OpenAPI document. */
    isInternal?: true
  }
  interface FastifyInstance {
    /** The routes of this server. */
    routes: readonly Route[]
    /** Answers every other method of the paths with MethodNotAllowed. To be called when all routes are registered. */
    rejectOtherMethods(): void
  }
}

/** A registered route. */
export interface Route {
  readonly method: string
  readonly url: string
  readonly failures: readonly FailureName[]
  readonly isInternal: boolean
}

export default fp(
  async (app) => {
    const routes: Route[] = []
    let isComplete = false
    app.decorate('routes', routes)
    app.addHook('onRoute', ({ method, url, config: { failures = [], isInternal = false } = {} }) => {
      if (isComplete) return
      for (const one of [method].flat()) routes.push({ method: one, url, failures, isInternal })
    })

    // Node's parser knows more methods than Fastify has routes for.
    for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
      app.addHttpMethod(method)
    app.decorate('rejectOtherMethods', () => {
      isComplete = true
      for (const [url, ofPath] of Map.groupBy(routes, (route) => route.url)) {
        const allowed = ofPath.map(({ method }) => method).sort()
        // Before anything else of the request is judged.
        const reject = () => {
          throw new Failure('MethodNotAllowed', { headers: { allow: allowed.join(', ') } })
        }
        const others = app.supportedMethods.filter((name) => !allowed.includes(name))
        const config = ofPath.some(({ isInternal }) => isInternal) ? { isInternal: true as const } : {}
        app.route({ method: others, url, config, onRequest: reject, handler: reject })
      }
    })
  },
  { name: 'methods' }
)
