/** Starts one of the servers that are no part of the product: `node main.ts bare`, or `documented`. */

import pg from 'pg'
import { readConfig } from '../../src/config/config.ts'
import { createDatabases } from '../../src/database/pool.ts'
import { createLogger } from '../../src/logger.ts'
import { openRepository } from '../../src/plants/plugin.ts'
import { buildBare } from './bare.ts'
import type { Repository } from './body.ts'
import { buildDocumented } from './documented.ts'
import { insertOne } from './insert.ts'

const config = readConfig(process.env)

/** Group commit as the service has it. */
function createGroupCommitRepository(): Repository {
  const log = createLogger('silent')
  const observer = { onStored: () => {}, onAttempt: () => {} }
  return openRepository(createDatabases(config.database, log), config, log, observer).plants
}

/** One prepared insert for each plant, on a pool of 10 connections: the driver's default. */
function createInsertRepository(): Repository {
  const pool = new pg.Pool(config.database)
  return { create: (plant) => pool.query(insertOne(plant)).then(() => ({ release() {} })) }
}

const app =
  process.argv[2] === 'bare'
    ? buildBare(createGroupCommitRepository())
    : await buildDocumented(createInsertRepository())
await app.listen({ host: config.HOST, port: config.PORT })
