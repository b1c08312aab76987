/** The methods of an application: which each path allows, and the refusal of all others. */
import { METHODS } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failures.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** All routes but those that reject other methods. `isApi`: it has a tag, and is in the document and the alerts. */
    routes: { method: string; url: string; isApi: boolean }[]
    /** Rejects every other method of the paths with MethodNotAllowed. Call it when all routes are registered. */
    rejectOtherMethods(): void
  }
}

/** Adds the list of routes, and what rejects other methods, CONNECT among them. */
export function addMethods(app: FastifyInstance) {
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
