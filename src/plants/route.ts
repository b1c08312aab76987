/** POST /plants. What can be refused by a request's header is refused before any of its body is read. */
import type { Static } from '@sinclair/typebox'
import type { FastifyRequest, onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { Failure } from '../failures.ts'
import { checkBodyHeader, checkBudget, createBodyReader } from '../http/body.ts'
import { parseIdempotencyKey } from '../http/head.ts'
import { Shares } from '../shares.ts'
import { NewPlant, Plant } from './schema.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The path of its route, for a create: to ask Fastify for it costs more. */
    apiPath: string | undefined
    idempotencyKey: string | undefined
  }
}

interface Options {
  /** The path in front of `/plants`. */
  basePath: string
  /** The budget of the bodies that are arriving at the same time. */
  bodyMemoryBytes: number
}

const tooManyConnections = () => new Failure('Overloaded', { message: 'too many connections' })

const schema = {
  operationId: 'createPlant',
  summary: 'Create a plant',
  description: `Creates a new plant in the store. The client chooses its id; the response comes when the plant is durable.

Ids are exact over all of int64. Beyond 2⁵³, write them with a JSON library that does not round; in JavaScript, \`JSON.rawJSON\` of a BigInt.`,
  tags: ['plants'],
  body: NewPlant,
  response: { 200: Plant }
}

export default fp<Options>(
  async (app, { basePath, bodyMemoryBytes }) => {
    const path = `${basePath}/plants`
    const { bodyLimit } = app.initialConfig as { bodyLimit: number }
    const bodies = new Shares(bodyMemoryBytes)
    const readBody = createBodyReader(NewPlant, bodies, bodyLimit)

    /** Returns the first failure, in the order of the contract. */
    function findRefusal(request: FastifyRequest): Failure | undefined {
      const { headers, connection, caller } = request
      request.apiPath = path
      // 1. The Idempotency-Key: this throws its failure.
      request.idempotencyKey = parseIdempotencyKey(headers['idempotency-key'] as string)
      return (
        // 2. What the header says about the body.
        checkBodyHeader(headers, bodyLimit) ??
        // 3. A connection beyond the limit.
        (connection?.isExcess ? tooManyConnections() : undefined) ??
        // 4. What no create can do now.
        app.plants.refusalFor(caller) ??
        // 5. The budget of bodies.
        checkBudget(headers, bodies, caller)
      )
    }

    // One hook for all synchronous decisions: Fastify's step from hook to hook costs more than most of them.
    const decide: onRequestHookHandler = (request, _, done) => done(findRefusal(request))

    app.decorateRequest('apiPath', undefined)
    app.decorateRequest('idempotencyKey', undefined)
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('application/json', (request, _, done) => readBody(request, done))
    app.post<{ Body: Static<typeof NewPlant> }>(
      path,
      { schema, onRequest: [app.authenticate, decide] },
      (request, reply) =>
        app.plants.create(request.body, request).then(({ stored, release }) => {
          if (reply.raw.closed) release()
          else reply.raw.on('close', release)
          if (stored === 'replayed') reply.header('idempotent-replayed', 'true')
          // The response's schema is Plant: it leaves out the id, and the check has dropped unknown properties.
          return request.body
        })
    )
  },
  { name: 'plants-route', dependencies: ['auth', 'schema', 'plant-repository'] }
)
