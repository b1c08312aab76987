/** The operations on plants, and their routes. */
import fp from 'fastify-plugin'
import type { Operation } from '../operation.ts'
import { NewPlant, Plant } from './schema.ts'

const createPlant: Operation<typeof NewPlant> = {
  id: 'createPlant',
  method: 'POST',
  path: '/plants',
  summary: 'Create a plant',
  description: `Creates a new plant in the store. The client chooses its id; the response comes when the plant is durable.

Ids are exact over all of int64. Beyond 2⁵³, write them with a JSON library that does not round; in JavaScript, \`JSON.rawJSON\` of a BigInt.`,
  writes: true,
  body: {
    schema: NewPlant,
    examples: {
      tagged: { summary: 'With a tag', value: { id: 1, name: 'Monstera', tag: 'tropical' } },
      untagged: { summary: 'Without a tag', value: { id: 2, name: 'Fern' } }
    }
  },
  success: {
    description: 'The plant is stored.',
    logged: 'created',
    schema: Plant,
    examples: {
      tagged: { summary: 'With a tag', value: { name: 'Monstera', tag: 'tropical' } },
      untagged: { summary: 'Without a tag', value: { name: 'Fern' } }
    }
  },
  failures: ['DuplicatePlant', 'ReusedKey', 'RefusedPlant'],
  refusalOf: ({ server, caller }) => server.plants.refusalFor(caller),
  handle: (request, reply) =>
    request.server.plants.create(request.body, request).then(({ stored, rows, release }) => {
      request.batchRows = rows
      if (reply.raw.closed) release()
      else reply.raw.on('close', release)
      if (stored === 'replayed') reply.header('idempotent-replayed', 'true')
      // The response's schema is Plant: it leaves out the id, and the body has no other fields (`removeAdditional`).
      return request.body
    })
}

/** The operations, in the order of the OpenAPI document. */
export const operations: readonly Operation[] = [createPlant]

export default fp(
  async (app) => {
    for (const operation of operations) app.addOperation(operation)
  },
  { name: 'plants-route', dependencies: ['schema', 'add-operation', 'plant-repository'] }
)
