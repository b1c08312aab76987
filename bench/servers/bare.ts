/** Fastify without any option, hook or schema: the floor of a service that uses it. */
import Fastify from 'fastify'
import { type Body, type Repository, toPlant } from './repositories.ts'

/** Builds it over a repository. */
export function buildBare(repository: Repository) {
  const app = Fastify()
  app.post<{ Body: Body }>('/plants', async ({ body }) => {
    const { release } = await repository.create(toPlant(body), { caller: '' })
    release()
    const { name, tag } = body
    return { name, tag }
  })
  return app
}
