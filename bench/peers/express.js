/**
 * Express 5 and node-postgres, as their documentation recommends:
 * https://expressjs.com/en/advanced/best-practice-performance.html (NODE_ENV, pino, errors)
 * https://expressjs.com/en/guide/error-handling.html
 * https://expressjs.com/en/advanced/healthcheck-graceful-shutdown.html
 * https://github.com/pinojs/pino/blob/main/docs/web.md#express (pino-http), /redaction.md
 * https://node-postgres.com/features/pooling and /apis/pool (a pool of 10, its error listener, parameters)
 * https://zod.dev/basics
 */
import { timingSafeEqual } from 'node:crypto'
import express from 'express'
import pg from 'pg'
import { pino } from 'pino'
import { pinoHttp } from 'pino-http'
import * as z from 'zod'

const uniqueViolation = '23505'

const { AUTH_TOKEN, DATABASE_URL, HOST, PORT } = process.env
const credentials = Buffer.from(`Bearer ${AUTH_TOKEN}`)

const logger = pino({ redact: ['req.headers.authorization'] })
const pool = new pg.Pool({ connectionString: DATABASE_URL })
pool.on('error', (error) => logger.error(error, 'an idle client failed'))

const NewPlant = z.object({ id: z.int(), name: z.string(), tag: z.string().optional() })

const app = express()
app.use(pinoHttp({ logger }))

app.use((request, response, next) => {
  const given = Buffer.from(request.get('authorization') ?? '')
  if (given.length === credentials.length && timingSafeEqual(given, credentials)) return next()
  response.status(400).json({ error: 401, message: 'a valid bearer token is required' })
})

app.use(express.json())

app.post('/plants', async (request, response) => {
  const { success, data, error } = NewPlant.safeParse(request.body)
  if (!success) return response.status(400).json({ error: 422, message: z.prettifyError(error) })
  const { id, name, tag } = data
  await pool.query('insert into plants (id, name, tag) values ($1, $2, $3)', [id, name, tag])
  response.json({ name, tag })
})

app.use((_, response) => {
  response.status(400).json({ error: 404, message: 'not found' })
})

app.use((error, request, response, next) => {
  if (response.headersSent) return next(error)
  if (error.code === uniqueViolation) {
    return response.status(400).json({ error: 409, message: 'a plant with this id exists already' })
  }
  if (error.expose)
    return response.status(400).json({ error: error.status, message: error.message })
  request.log.error(error)
  response.status(400).json({ error: 500, message: 'internal server error' })
})

const server = app.listen(Number(PORT), HOST, (error) => {
  if (error) throw error
  logger.info(`listening at http://${HOST}:${server.address().port}`)
})

process.on('SIGTERM', () => {
  server.close(() => pool.end())
})
