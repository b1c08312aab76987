/**
 * Platformatic DB: its own API of the table (watt.json), but for the POST, whose answers the interface wants otherwise;
 * that one is a plugin's route over the entity, as its documentation says:
 * https://docs.platformatic.dev/docs/reference/db/configuration (a pool of 10)
 * https://docs.platformatic.dev/docs/reference/sql-openapi/ignore (ignoreRoutes)
 * https://docs.platformatic.dev/docs/reference/db/plugin
 * https://docs.platformatic.dev/docs/reference/sql-mapper/entities/api (insert)
 * https://github.com/fastify/fastify-bearer-auth#readme
 */
import bearerAuth from '@fastify/bearer-auth'
import fp from 'fastify-plugin'

const uniqueViolation = '23505'

const plant = { name: { type: 'string' }, tag: { type: 'string' } }
const NewPlant = {
  type: 'object',
  properties: { id: { type: 'integer', format: 'int64' }, ...plant },
  required: ['id', 'name']
}
const Plant = { type: 'object', properties: plant, required: ['name'] }
const ErrorBody = {
  type: 'object',
  properties: { error: { type: 'integer' }, message: { type: 'string' } },
  required: ['error', 'message']
}

export default fp(async (app) => {
  app.setErrorHandler((error, request, reply) => {
    reply.code(400)
    if (error.code === uniqueViolation) return { error: 409, message: 'a plant with this id exists already' }
    if (error.validation) return { error: 422, message: error.message }
    if (error.statusCode < 500) return { error: error.statusCode, message: error.message }
    request.log.error(error)
    return { error: 500, message: 'internal server error' }
  })

  await app.register(bearerAuth, { keys: [process.env.AUTH_TOKEN], addHook: false })
  app.addHook('onRequest', app.verifyBearerAuth)

  const { entities } = app.platformatic
  app.post(
    '/plants',
    { schema: { body: NewPlant, response: { 200: Plant, 400: ErrorBody } } },
    async ({ body: { id, name, tag } }) => {
      await entities.plant.insert({ inputs: [{ id, name, tag }] })
      return { name, tag }
    }
  )
})
