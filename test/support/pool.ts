/** A pool of one connection. */
import type { Test } from 'tap'
import { type Database, Databases } from '../../src/database/pool.ts'
import type { ConnectionOptions } from '../../src/database/url.ts'

/** Opens a pool, with its owner's methods; ends it at teardown. */
export function openPool(t: Test, connection: ConnectionOptions, limitMs = 15_000) {
  const databases = new Databases(connection, { warn() {} })
  t.teardown(() => databases.end())
  const pool = databases.open({ size: 1, limitMs })
  const database: Database = { query: pool.query.bind(pool), reset: pool.reset.bind(pool) }
  return Object.assign(databases, database)
}
