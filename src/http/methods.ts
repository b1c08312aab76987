/** The methods that a path does not have. */
import { METHODS } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { Failure } from '../failures/failures.ts'

/** Answers every method but the allowed ones with MethodNotAllowed, before anything else of the request is judged. */
export function refuseOtherMethods(app: FastifyInstance, url: string, allowed: string[]): void {
  // Node's parser knows more methods than Fastify has routes for.
  for (const method of METHODS.filter((name) => !app.supportedMethods.includes(name)))
    app.addHttpMethod(method)
  const refuse = () => {
    throw new Failure('MethodNotAllowed', { headers: { allow: allowed.join(', ') } })
  }
  const method = app.supportedMethods.filter((name) => !allowed.includes(name))
  app.route({ method, url, onRequest: refuse, handler: refuse })
}
