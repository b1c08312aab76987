/** The service with one prepared insert a request, on a pool of 10 connections, in place of group commit. */
import closeWithGrace from 'close-with-grace'
import pg from 'pg'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { Failure } from '../../src/failures.ts'
import { createLogger } from '../../src/log.ts'
import type { PlantRepository } from '../../src/plants/repository.ts'
import { insertOne } from './repositories.ts'

const config = readConfig(process.env)
const pool = new pg.Pool(config.database.value)
const repository: PlantRepository = {
  async create(plant) {
    const { rowCount } = await pool.query(insertOne(plant))
    if (rowCount === 0) throw new Failure('DuplicatePlant')
    return { stored: 'created', rows: 1, release() {} }
  },
  refusalFor: () => undefined,
  noteAway() {},
  load: { rows: 0, bytes: 0, expectedMs: 0, busyLanes: 0, databaseDown: false },
  close: () => pool.end()
}

const app = await buildApp(config, createLogger(config.LOG_LEVEL), { repository: () => repository })
await app.listenForMetrics()
await app.listen({ host: config.HOST, port: config.PORT })
closeWithGrace({ logger: app.log }, () => app.close())
