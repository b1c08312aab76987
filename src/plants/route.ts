/** The route POST /plants. If the header of a request decides it, none of its body is read. */
import { randomUUID } from 'node:crypto'
import type { Static } from '@sinclair/typebox'
import type { onRequestHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { checkBodyHeader, readBodies } from '../http/body.ts'
import { parseIdempotencyKey } from '../http/head.ts'
import { dropUnknown, NewPlant, Plant } from './schema.ts'
import { contentOf, deriveWriteId } from './write-id.ts'

const schema = {
  operationId: 'createPlant',
  summary: 'Create a plant',
  description:
    'Creates a new plant in the store. The client chooses its id; ' +
    'the response comes when the plant is durable.\n\n' +
    'Ids are exact over all of int64. Beyond 2⁵³, write them with a JSON library that does not ' +
    'round; in JavaScript, `JSON.rawJSON` of a BigInt.',
  tags: ['plants'],
  body: NewPlant,
  response: { 200: Plant }
}

export default fp<Config>(async (app, { BASE_PATH, BODY_LIMIT_BYTES, bodyMemoryBytes }) => {
  // This hook ends a request with its first failure, in the order of the contract. It is one hook,
  // because Fastify's step from one hook to the next costs more than most of the checks.
  const decide: onRequestHookHandler = (request, _, done) => {
    const { headers, caller } = request
    // 1. The Idempotency-Key: this throws its failure.
    parseIdempotencyKey(headers['idempotency-key'] as string)
    // 2. The type and the size of the body, as the header has them.
    const failure = checkBodyHeader(headers, BODY_LIMIT_BYTES)
    // 3. What any create of this caller would meet now.
    done(failure ?? app.plants.refusalFor(caller))
  }

  const holdBody = readBodies(app, NewPlant, bodyMemoryBytes, BODY_LIMIT_BYTES)
  app.post<{ Body: Static<typeof NewPlant> }>(
    `${BASE_PATH}/plants`,
    { schema, onRequest: [app.authenticate, decide], preParsing: holdBody },
    (request, reply) => {
      const { body, caller, headers, bodyText } = request
      const key = parseIdempotencyKey(headers['idempotency-key'] as string)
      const writeId =
        key === undefined ? randomUUID() : deriveWriteId(caller, key, contentOf(body, bodyText))
      // Thousands of creates may wait for seconds, so drop the text and keep only the plant.
      request.bodyText = ''
      dropUnknown(NewPlant, body)
      return app.plants.create(body, caller, writeId).then((stored) => {
        if (stored === 'replayed') reply.header('idempotent-replayed', 'true')
        // The response's schema is Plant, so the serializer leaves out the id.
        return body
      })
    }
  )
})
