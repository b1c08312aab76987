/** What is compared: the same operation over the same group commit, on more and more of a framework. */
import { createServer, type Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config/config.ts'
import { createLogger } from '../../src/logger.ts'
import { token } from '../plant.ts'
import { buildBare } from '../servers/bare.ts'
import { type Body, toPlant } from '../servers/body.ts'
import { buildDocumented } from '../servers/documented.ts'
import { createRepository } from './repository.ts'

const config = readConfig({
  DATABASE_URL: 'postgres://nobody@127.0.0.1/nothing',
  AUTH_TOKENS: `bench:${token}`,
  METRICS_PORT: 'off'
})

const repository = () => createRepository(config)

/** Nothing but Node: what any framework adds to. */
async function startNode(): Promise<Server> {
  const { create } = repository()
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      const body = JSON.parse(text) as Body
      create(toPlant(body), { caller: '' }).then(({ release }) => {
        release()
        const { name, tag } = body
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ name, tag }))
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

/** The service as production builds it, but for its database. */
function buildService(): Promise<FastifyInstance> {
  return buildApp(config, createLogger(config.LOG_LEVEL), { repository: repository() })
}

async function listen(app: FastifyInstance): Promise<Server> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app.server
}

/** The servers by their names, in the order of the table. */
export const servers = {
  'node:http': startNode,
  'bare Fastify': async () => listen(buildBare(repository())),
  'as documented': async () => listen(await buildDocumented(repository())),
  service: async () => listen(await buildService())
}
export type Name = keyof typeof servers
