/**
 * Platformatic DB: the REST API that it makes of the table, and what it leaves to a plugin, as its documentation says:
 * https://docs.platformatic.dev/docs/reference/db/configuration (watt.json; a pool of 10)
 * https://docs.platformatic.dev/docs/reference/db/plugin
 * https://docs.platformatic.dev/docs/reference/sql-mapper/entities/hooks
 * https://github.com/fastify/fastify-bearer-auth#readme
 * Errors stay in the form that the generated routes give them: an error handler of a plugin does not reach those.
 */

import bearerAuth from '@fastify/bearer-auth'
import createError from '@fastify/error'
import fp from 'fastify-plugin'

const uniqueViolation = '23505'
const DuplicatePlant = createError('DUPLICATE_PLANT', 'a plant with this id exists already', 400)

export default fp(async (app) => {
  await app.register(bearerAuth, { keys: [process.env.AUTH_TOKEN], addHook: false })
  app.addHook('onRequest', app.verifyBearerAuth)

  // The generated POST saves: it would update the plant that has this id.
  const { plant } = app.platformatic.entities
  app.platformatic.addEntityHooks('plant', {
    save: async (_, { input, ...options }) => {
      try {
        const [created] = await plant.insert({ ...options, inputs: [input] })
        return created
      } catch (error) {
        throw error.code === uniqueViolation ? new DuplicatePlant() : error
      }
    }
  })
})
