/** Fastify over the service's own group commit: no token, no check, no log, no metrics. What the service adds is the rest. */
import Fastify from 'fastify'
import { openGroupCommit } from './group-commit.ts'

const create = openGroupCommit()
const app = Fastify()

app.post<{ Body: Parameters<typeof create>[0] }>('/plants', async ({ body }) => {
  await create(body)
  return { name: body.name, tag: body.tag }
})

process.on('SIGTERM', () => process.exit(0))
process.stdout.write(
  `listening at ${await app.listen({ host: `${process.env.HOST}`, port: Number(process.env.PORT) })}\n`
)
