/** Fastify as its documentation and that of its plugins write it: pino's two lines, schemas, bearer keys. */
import bearerAuth from '@fastify/bearer-auth'
import Fastify from 'fastify'
import { token } from '../plant.ts'
import { type Body, type Repository, toPlant } from './repositories.ts'

const text = { type: 'string' }
const newPlant = {
  type: 'object',
  properties: { id: { type: 'integer' }, name: text, tag: text },
  required: ['id', 'name']
}
const plant = { type: 'object', properties: { name: text, tag: text }, required: ['name'] }

/** Builds it over a repository. */
export async function buildDocumented(repository: Repository) {
  const app = Fastify({ logger: true })
  await app.register(bearerAuth, { keys: new Set([token]) })
  app.post<{ Body: Body }>(
    '/plants',
    { schema: { body: newPlant, response: { 200: plant } } },
    async ({ body }) => {
      const { release } = await repository.create(toPlant(body), { caller: '' })
      release()
      return body
    }
  )
  return app
}
