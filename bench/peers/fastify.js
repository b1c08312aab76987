/**
 * Fastify and node-postgres, as their documentation and that of the plugin write it:
 * https://fastify.dev/docs/latest/Guides/Getting-Started/ (validation, serialisation, the logger)
 * https://github.com/fastify/fastify-bearer-auth#readme
 * https://node-postgres.com/features/pooling (a pool of 10), /features/queries (prepared statements)
 */
import bearerAuth from '@fastify/bearer-auth'
import Fastify from 'fastify'
import pg from 'pg'

const { AUTH_TOKEN, DATABASE_URL, HOST, PORT } = process.env

const text = { type: 'string' }
const properties = { id: { type: 'integer' }, name: text, tag: text }
const NewPlant = { type: 'object', properties, required: ['id', 'name'] }
const Plant = { type: 'object', properties: { name: text, tag: text }, required: ['name'] }

const insert = {
  name: 'insert-plant',
  text: 'insert into plants (id, name, tag) values ($1, $2, $3)'
}

const app = Fastify({ logger: true })

const pool = new pg.Pool({ connectionString: DATABASE_URL })
pool.on('error', (error) => app.log.error(error, 'an idle client failed'))
app.addHook('onClose', () => pool.end())

await app.register(bearerAuth, { keys: [AUTH_TOKEN] })

app.post('/plants', { schema: { body: NewPlant, response: { 200: Plant } } }, async ({ body }) => {
  const { id, name, tag } = body
  await pool.query({ ...insert, values: [id, name, tag] })
  return { name, tag }
})

process.on('SIGTERM', () => app.close())

await app.listen({ host: HOST, port: Number(PORT) })
