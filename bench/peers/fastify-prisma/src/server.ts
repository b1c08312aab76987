/**
 * Fastify and Prisma 7, as their documentation recommends:
 * https://fastify.dev/docs/latest/Guides/Getting-Started/ (validation, serialisation, the logger)
 * https://fastify.dev/docs/latest/Reference/Type-Providers/ (TypeBox)
 * https://github.com/fastify/fastify-bearer-auth#readme
 * https://github.com/fastify/demo/blob/main/src/server.ts (close-with-grace)
 * https://www.prisma.io/docs/orm/v7/prisma-client/setup-and-configuration/introduction (prisma-client, adapter-pg)
 * https://www.prisma.io/docs/orm/reference/error-reference#p2002
 */
import bearerAuth from '@fastify/bearer-auth'
import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { PrismaPg } from '@prisma/adapter-pg'
import closeWithGrace from 'close-with-grace'
import Fastify, { type FastifyError } from 'fastify'
import { Prisma, PrismaClient } from './generated/prisma/client.js'

const uniqueViolation = 'P2002'

const { AUTH_TOKEN = '', DATABASE_URL, HOST, PORT } = process.env

const Plant = Type.Object({ name: Type.String(), tag: Type.Optional(Type.String()) })
const NewPlant = Type.Object({ id: Type.Integer({ format: 'int64' }), ...Plant.properties })
const ErrorBody = Type.Object({ error: Type.Integer(), message: Type.String() })

const app = Fastify({ logger: true }).withTypeProvider<TypeBoxTypeProvider>()

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: DATABASE_URL }) })
app.addHook('onClose', () => prisma.$disconnect())

app.setErrorHandler((error: FastifyError | Prisma.PrismaClientKnownRequestError, request, reply) => {
  reply.code(400)
  if (error instanceof Prisma.PrismaClientKnownRequestError) {
    if (error.code === uniqueViolation) return { error: 409, message: 'a plant with this id exists already' }
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
    await prisma.plant.create({ data: { id, name, tag } })
    return { name, tag }
  }
)

closeWithGrace({ logger: app.log }, () => app.close())

await app.listen({ host: HOST, port: Number(PORT) })
