/**
 * Hono and Postgres.js, as their documentation recommends:
 * https://hono.dev/docs/getting-started/nodejs (the adapter)
 * https://hono.dev/docs/middleware/builtin/bearer-auth and /logger
 * https://hono.dev/docs/guides/validation#with-zod (the validator and its hook)
 * https://hono.dev/docs/api/exception (app.onError)
 * https://github.com/porsager/postgres#usage (a pool of 10, prepared statements, sql.end)
 */
import { serve } from '@hono/node-server'
import { zValidator } from '@hono/zod-validator'
import { Hono } from 'hono'
import { bearerAuth } from 'hono/bearer-auth'
import { HTTPException } from 'hono/http-exception'
import { logger } from 'hono/logger'
import postgres from 'postgres'
import * as z from 'zod'

const uniqueViolation = '23505'

const { AUTH_TOKEN = '', DATABASE_URL = '', HOST, PORT } = process.env

const sql = postgres(DATABASE_URL)

const NewPlant = z.object({ id: z.int(), name: z.string(), tag: z.string().optional() })

const app = new Hono()
app.use(logger())
app.use(bearerAuth({ token: AUTH_TOKEN }))

app.post(
  '/plants',
  zValidator('json', NewPlant, (result, c) => {
    if (!result.success) return c.json({ error: 422, message: z.prettifyError(result.error) }, 400)
  }),
  async (c) => {
    const { id, name, tag } = c.req.valid('json')
    await sql`insert into plants (id, name, tag) values (${id}, ${name}, ${tag ?? null})`
    return c.json({ name, tag })
  }
)

app.notFound((c) => c.json({ error: 404, message: 'not found' }, 400))

app.onError((error, c) => {
  if (error instanceof HTTPException) {
    return c.json({ error: error.status, message: error.message || 'unauthorized' }, 400)
  }
  if (error instanceof postgres.PostgresError && error.code === uniqueViolation) {
    return c.json({ error: 409, message: 'a plant with this id exists already' }, 400)
  }
  console.error(error)
  return c.json({ error: 500, message: 'internal server error' }, 400)
})

const server = serve({ fetch: app.fetch, hostname: HOST, port: Number(PORT) }, ({ port }) => {
  console.log(`listening at http://${HOST}:${port}`)
})

process.on('SIGTERM', () => {
  server.close(async (error) => {
    if (error) console.error(error)
    await sql.end()
    process.exit(error ? 1 : 0)
  })
})
