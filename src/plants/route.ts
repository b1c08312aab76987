/** The operation: create a plant. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FailureName } from '../failures/catalogue.ts'
import { checkBodyHead } from '../http/head.ts'
import { ErrorBody, NewPlant, Plant } from './schema.ts'
import { parseIdempotencyKey } from './write-key.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The Idempotency-Key that the request came with. */
    idempotencyKey: string | undefined
    /** How many plants were in the last transaction that its plant was tried in; undefined where it was in none. */
    batchRows: number | undefined
    /** How many hold its plant's texts, and how many bytes these are. */
    textHolders: number
    queuedBytes: number
    /** Whether its end is reported: that of an injected request is not. */
    readonly isReleased: boolean
  }
}

/** What a create can meet, besides the failures of the catalogue that have a scope. */
export const failures: readonly FailureName[] = [
  'MissingToken',
  'MalformedToken',
  'InvalidToken',
  'RateLimited',
  'MalformedKey',
  'MalformedBody',
  'UnsupportedMediaType',
  'InvalidPlant',
  'DuplicatePlant',
  'ReusedKey',
  'RefusedPlant',
  'Overloaded',
  'Unavailable',
  'DeadlineExceeded',
  'ShuttingDown',
  'OutcomeUnknown'
]

const plants: FastifyPluginAsyncTypebox = async (app) => {
  app.decorateRequest('idempotencyKey', undefined)
  app.decorateRequest('batchRows', undefined)
  app.decorateRequest('textHolders', 0)
  app.decorateRequest('queuedBytes', 0)
  app.decorateRequest('isReleased', {
    getter() {
      return this.connection !== undefined
    }
  })
  app.onClosed(({ request }) => app.plants.release(request))
  const { bodyLimit } = app.initialConfig as { bodyLimit: number }
  app.post('/plants', {
    config: { failures },
    schema: { body: NewPlant, response: { 200: Plant, 400: ErrorBody } },
    onRequest: [
      app.authenticate,
      app.limitRate,
      // One hook for all synchronous decisions: Fastify's step from hook to hook costs more than most of them.
      (request, _, done) => {
        const { headers } = request
        request.idempotencyKey = parseIdempotencyKey(headers['idempotency-key'] as string | undefined)
        done(
          checkBodyHead(headers, bodyLimit) ??
            app.admitRequest(request) ??
            app.plants.writeRefusal(request.caller) ??
            app.admitBody(request)
        )
      }
    ],
    handler: (request, reply) =>
      app.plants.create(request.body, request).then((stored) => {
        if (stored === 'replayed') reply.header('idempotent-replayed', 'true')
        // The response's schema selects its fields.
        return request.body
      })
  })
}

export default plants
