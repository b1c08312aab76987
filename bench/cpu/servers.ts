/** What is compared: the same operation on more and more of a framework. */
import type { Server } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { createLogger } from '../../src/log.ts'
import { token } from '../plant.ts'
import { buildBare } from '../servers/bare.ts'
import { buildDocumented } from '../servers/documented.ts'
import { openGroupCommit, openInserts } from '../servers/repositories.ts'
import { createRepository } from './repository.ts'

async function listen(app: FastifyInstance): Promise<Server> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  return app.server
}

/**
 * Starts the servers; returns them by their names, in the order of the table. Over the database with this URL they are
 * those of `npm run bench`; without a URL all have the service's group commit over a database in memory.
 */
export async function startServers(url?: string): Promise<[name: string, Server][]> {
  const config = readConfig({
    DATABASE_URL: url ?? 'postgres://nobody@127.0.0.1/nothing',
    AUTH_TOKENS: `bench:${token}`,
    METRICS_PORT: 'off'
  })
  const [groupCommit, inserts] = url
    ? [openGroupCommit(config), openInserts(config)]
    : [createRepository(config), createRepository(config)]
  const service = await buildApp(
    config,
    createLogger(config.LOG_LEVEL),
    url ? {} : { repository: () => createRepository(config) }
  )
  return [
    ['bare Fastify', await listen(buildBare(groupCommit))],
    ['as documented', await listen(await buildDocumented(inserts))],
    ['service', await listen(service)]
  ]
}
