/** The repository of the service over a database in memory: group commit, batches and statements as in production. */
import type pg from 'pg'
import { pino } from 'pino'
import type { Config } from '../../src/config/config.ts'
import type { Database } from '../../src/database/sessions.ts'
import { createReportCounts } from '../../src/metrics/reports.ts'
import { createPlantRepository, type PlantRepository } from '../../src/plants/repository.ts'
import { createSqlStore } from '../../src/plants/sql-store.ts'

/** Writes each row in one turn of the event loop, and keeps none. */
const database: Pick<Database, 'run' | 'reports'> = {
  reports: createReportCounts(),
  async run<Row extends pg.QueryResultRow>({ values = [] }: pg.QueryConfig) {
    await new Promise(setImmediate)
    const [writeIds = ''] = values as string[]
    const rows = writeIds
      .slice(1, -1)
      .split(',')
      .map((write_id) => ({ write_id }))
    return { rows } as unknown as pg.QueryResult<Row>
  }
}

/** Makes the repository with a configuration's limits. */
export function createRepository({ write }: Pick<Config, 'write'>): PlantRepository {
  const nothing = { onStored: () => {}, onAttempt: () => {} }
  return createPlantRepository(
    createSqlStore(database, write.deadlineMs),
    write,
    pino({ enabled: false }),
    nothing
  )
}
