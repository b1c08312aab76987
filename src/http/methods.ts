/** The methods of an application: which each path allows, and the refusal of all others. */
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failures/failure.ts'
import type { RegisteredOperation } from '../operation.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** All routes, but for those that reject other methods. */
    routes: readonly Route[]
    /** Rejects every other method of the paths with MethodNotAllowed. Call it when all routes are registered. */
    rejectOtherMethods(): void
  }
}

interface Route {
  method: string
  url: string
  /** Undefined for an internal route. */
  operation: RegisteredOperation | undefined
}

/** Adds the list of routes, and what rejects other methods. `rejectConnection` rejects a CONNECT, for which Node has no response. */
export function addMethods(
  app: FastifyInstance,
  rejectConnection: (socket: Socket, failure: Failure) => void
) {
  const routes: Route[] = []
  app.decorate('routes', routes)
  app.addHook('onRoute', ({ method, url, config }) => {
    // Routes that reject have a list of methods.
    if (typeof method === 'string') routes.push({ method, url, operation: config?.operation })
  })
  // Node's parser knows more methods than Fastify has routes for.
  for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
    app.addHttpMethod(method)
  app.decorate('rejectOtherMethods', () => {
    for (const [url, pathRoutes] of Map.groupBy(routes, (route) => route.url)) {
      const headers = allow(pathRoutes)
      const reject = () => {
        throw new Failure('MethodNotAllowed', { headers })
      }
      const others = app.supportedMethods.filter((name) => pathRoutes.every(({ method }) => method !== name))
      // In onRequest, so that the method is refused before Fastify reads the body.
      app.route({ method: others, url, config: { isInternal: true }, onRequest: reject, handler: reject })
    }
  })
  // A CONNECT names no path.
  app.server.on('connect', (_, socket: Socket) => {
    socket.resume()
    const operationRoutes = routes.filter(({ operation }) => operation)
    const headers = allow(operationRoutes.length > 0 ? operationRoutes : routes)
    rejectConnection(socket, new Failure('MethodNotAllowed', { headers }))
  })
}

/** Returns the `allow` field for the methods of routes. */
const allow = (routes: Route[]) => ({
  allow: [...new Set(routes.map(({ method }) => method))].sort().join(', ')
})
