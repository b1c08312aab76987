/** POST /plants. What a request's header decides is decided before any of its body is read. */
import type { Static } from '@sinclair/typebox'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { checkBodyHeader, readBodies } from '../http/body.ts'
import { parseIdempotencyKey } from '../http/head.ts'
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
  bodyLimitBytes: number
  /** The budget of the bodies that are arriving at the same time. */
  bodyMemoryBytes: number
}

const schema = {
  operationId: 'createPlant',
  summary: 'Create a plant',
  description: `Creates a new plant in the store. The client chooses its id; the response comes when the plant is durable.

Ids are exact over all of int64. Beyond 2⁵³, write them with a JSON library that does not round; in JavaScript, \`JSON.rawJSON\` of a BigInt.`,
  tags: ['plants'],
  body: NewPlant,
  response: { 200: Plant }
}

export default fp<Options>(async (app, { basePath, bodyLimitBytes, bodyMemoryBytes }) => {
  const path = `${basePath}/plants`
  // The first failure, in the order of the contract. One hook: Fastify's step between two costs more than most checks.
  const decide: onRequestHookHandler = (request, _, done) => {
    const { headers, caller } = request
    request.apiPath = path
    // 1. The Idempotency-Key: this throws its failure.
    request.idempotencyKey = parseIdempotencyKey(headers['idempotency-key'] as string)
    // 3. What no create can do now: sent behind the refusal of a connection beyond the limit, which all routes share.
    request.failure = app.plants.refusalFor(caller) ?? null
    // 2. What the header says about the body.
    done(checkBodyHeader(headers, bodyLimitBytes))
  }

  app.decorateRequest('apiPath', undefined)
  app.decorateRequest('idempotencyKey', undefined)
  const holdBody = readBodies(app, NewPlant, bodyMemoryBytes, bodyLimitBytes)
  app.post<{ Body: Static<typeof NewPlant> }>(
    path,
    { schema, onRequest: [app.authenticate, decide], preParsing: holdBody },
    ({ body, caller, idempotencyKey }, reply) =>
      app.plants.create(body, caller, idempotencyKey).then(({ stored, release }) => {
        if (reply.raw.closed) release()
        else reply.raw.on('close', release)
        if (stored === 'replayed') reply.header('idempotent-replayed', 'true')
        // The response's schema is Plant: it leaves out the id, and the check has dropped unknown properties.
        return body
      })
  )
})
