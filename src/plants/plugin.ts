/** The repository and, under it, the database connections' whole life. */
import type { Registry } from '@prometheus-io/client'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import { createPool } from '../database/pool.ts'
import { checkReadiness, checkWritable, probeWhileIdle } from '../database/readiness.ts'
import { statementLimitMs } from '../database/statement.ts'
import type { ConnectionOptions } from '../database/url.ts'
import { watchDatabaseUrl } from '../database/url-file.ts'
import {
  type Check,
  checkCommits,
  checkEncoding,
  checkMigrated,
  checkRights
} from '../database/wait-for-database.ts'
import { addGauge } from '../metrics/metrics.ts'
import type { SecretFile } from '../secret-file.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { createPlantMetrics } from './metrics.ts'
import { createPlantRepository, type Observer, type PlantRepository, type WriteLimits } from './repository.ts'
import { selectMissingRights, selectRequired } from './statements.ts'

declare module 'fastify' {
  interface FastifyInstance {
    plants: PlantRepository
    /** The options of the database that is in use. */
    currentDatabase(): ConnectionOptions
    /** Reads the file with the database's URL again, if there is one. */
    reloadDatabaseUrl(): Promise<void>
  }
}

interface Options {
  registry: Registry
  connection: ConnectionOptions
  /** The file that the connection's URL came from, if any: it is watched. */
  file?: SecretFile | undefined
  write: WriteLimits
  tracing?: Tracing | undefined
}

/** For the probe of an outage, besides those of the lanes. */
const probeConnections = 1

/** What the database must pass before the service uses it. */
export const databaseChecks: Check[] = [
  checkEncoding,
  checkCommits,
  checkWritable,
  // Before the migrations: without its rights, the role cannot see the table.
  checkRights(selectMissingRights),
  checkMigrated(selectRequired)
]

/** Makes the repository and its connections. */
export function openRepository(
  { connection, write, tracing }: Pick<Options, 'connection' | 'write' | 'tracing'>,
  log: FastifyBaseLogger,
  observer: Observer
) {
  // The pool of writes and probes. Reads would need a pool of their own, or they would take the lanes' connections.
  const database = createPool({
    connection,
    size: write.lanes + probeConnections,
    limitMs: statementLimitMs(write.deadlineMs),
    log
  })
  const plants = createPlantRepository(database, write, log, observer, tracing)
  return {
    database,
    plants,
    async close() {
      await plants.close()
      await database.end()
    }
  }
}

export default fp<Options>(
  async (app, { registry, file, ...options }) => {
    const { connection, write } = options
    const metrics = createPlantMetrics(registry)
    const { database, plants, close } = openRepository(options, app.log, metrics)
    const followed =
      file &&
      watchDatabaseUrl({
        file,
        connection,
        checks: databaseChecks,
        log: app.log,
        onChange: (changed) => database.reconnect(changed)
      })
    const help = '1 while DATABASE_URL_FILE is broken or does not work'
    addGauge(registry, 'database_url_file_error', help, () => +(followed?.isBroken() ?? false))
    metrics.watch({ limits: write, load: plants.load, pool: database.state })
    app.decorate('plants', plants)
    app.decorate('currentDatabase', () => followed?.current() ?? connection)
    app.decorate('reloadDatabaseUrl', async () => {
      if (followed) await followed.reload()
      else app.log.info('there is no DATABASE_URL_FILE to read again')
    })
    let endProbes = () => {}
    // Not earlier: until then, the start waits for the database and reports that.
    app.addHook('onListen', async () => {
      endProbes = probeWhileIdle({
        probe: () => checkReadiness(database, selectRequired),
        isIdle: () => plants.load.rows === 0 && !plants.load.databaseDown,
        onAway: plants.noteAway
      })
    })
    app.addHook('onClose', async () => {
      endProbes()
      followed?.close()
      await close()
    })
  },
  { name: 'plants' }
)
