/** The repository of the service over a database in memory: group commit, batches and statements as in production. */
import type pg from 'pg'
import { pino } from 'pino'
import type { Config } from '../../src/config.ts'
import type { Pool } from '../../src/database/pool.ts'
import { createPlantRepository, type PlantRepository } from '../../src/plants/repository.ts'
import { createSqlStore } from '../../src/plants/sql-store.ts'

/** Writes each row in one turn of the event loop, and keeps none. */
const pool: Pool = {
  async query<Row extends pg.QueryResultRow>({ values = [] }: pg.QueryConfig) {
    await new Promise(setImmediate)
    const [writeIds = ''] = values as string[]
    const rows = writeIds
      .slice(1, -1)
      .split(',')
      .map((write_id) => ({ write_id }))
    return { rows } as unknown as pg.QueryResult<Row>
  },
  replaceAll: () => {}
}

/** Makes the repository with a configuration's limits. */
export function createRepository({ write }: Pick<Config, 'write'>): PlantRepository {
  const nothing = { onStored: () => {}, onAttempt: () => {} }
  return createPlantRepository(createSqlStore(pool), write, pino({ enabled: false }), nothing)
}
