/** The operation: create a plant. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { parseIdempotencyKey } from '../http/idempotency-key.ts'
import { checkBodyHead } from '../http/request-head.ts'
import { ErrorBody, NewPlant, Plant } from '../plugins/schema.ts'
import { refuseOtherMethods } from './methods.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The Idempotency-Key that the request came with. */
    idempotencyKey: string | undefined
  }
}

const plants: FastifyPluginAsyncTypebox = async (app) => {
  app.decorateRequest('idempotencyKey', undefined)
  app.post('/plants', {
    schema: { body: NewPlant, response: { 200: Plant, 400: ErrorBody } },
    onRequest: [
      app.authenticate,
      app.limitRate,
      (request, _, done) => {
        request.idempotencyKey = parseIdempotencyKey(request.headers['idempotency-key'] as string | undefined)
        done()
      },
      (request, _, done) => done(checkBodyHead(request.headers, request.routeOptions.bodyLimit))
    ],
    // RFC 8259 section 11: the media type has no charset parameter, which Fastify adds.
    onSend: (_, reply, payload, done) => {
      reply.header('content-type', 'application/json')
      done(null, payload)
    },
    handler: async ({ body, caller, idempotencyKey: key }) => {
      await app.plants.create(body, { caller, key })
      const { name, tag } = body
      return tag === undefined ? { name } : { name, tag }
    }
  })

  refuseOtherMethods(app, '/plants', ['POST'])
}

export default plants
