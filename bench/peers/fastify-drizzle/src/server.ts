/**
 * Fastify and Drizzle, as their documentation recommends:
 * https://fastify.dev/docs/latest/Guides/Getting-Started/ (validation, serialisation, the logger)
 * https://fastify.dev/docs/latest/Reference/Type-Providers/ (TypeBox)
 * https://github.com/fastify/fastify-bearer-auth#readme
 * https://github.com/fastify/demo/blob/main/src/server.ts (close-with-grace)
 * https://orm.drizzle.team/docs/get-started-postgresql (node-postgres, its pool of 10)
 * https://orm.drizzle.team/docs/typebox (schema.ts)
 */
import bearerAuth from '@fastify/bearer-auth'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import closeWithGrace from 'close-with-grace'
import { DrizzleQueryError } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import Fastify, { type FastifyError } from 'fastify'
import pg from 'pg'
import { ErrorBody, NewPlant, Plant, plants } from './schema.js'

const uniqueViolation = '23505'

const { AUTH_TOKEN = '', DATABASE_URL, HOST, PORT } = process.env

const app = Fastify({ logger: true }).withTypeProvider<TypeBoxTypeProvider>()

const pool = new pg.Pool({ connectionString: DATABASE_URL })
pool.on('error', (error) => app.log.error(error, 'an idle client failed'))
app.addHook('onClose', () => pool.end())
const db = drizzle({ client: pool })

app.setErrorHandler((error: FastifyError | DrizzleQueryError, request, reply) => {
  reply.code(400)
  if (error instanceof DrizzleQueryError) {
    const { cause } = error
    if (cause instanceof pg.DatabaseError && cause.code === uniqueViolation) {
      return { error: 409, message: 'a plant with this id exists already' }
    }
  } else if (error.validation) {
    return { error: 422, message: error.message }
  } else if (error.statusCode && error.statusCode < 500) {
    return { error: error.statusCode, message: error.message }
  }
  request.log.error(error)
  return { error: 500, message: 'internal server error' }
})
app.setNotFoundHandler((_, reply) => reply.code(400).send({ error: 404, message: 'not found' }))

await app.register(bearerAuth, { keys: [AUTH_TOKEN], addHook: false })
app.addHook('onRequest', app.verifyBearerAuth as NonNullable<typeof app.verifyBearerAuth>)

app.post(
  '/plants',
  { schema: { body: NewPlant, response: { 200: Plant, 400: ErrorBody } } },
  async ({ body: { id, name, tag } }) => {
    await db.insert(plants).values({ id, name, tag })
    return { name, tag }
  }
)

closeWithGrace({ logger: app.log }, () => app.close())

await app.listen({ host: HOST, port: Number(PORT) })
