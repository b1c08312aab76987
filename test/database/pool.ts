/** A pool of one connection. */
import type { Test } from 'tap'
import { Database, type Pool } from '../../src/database/pool.ts'
import type { DatabaseOptions } from '../../src/database/url.ts'

/** Opens a pool, with its owner's methods; ends it at teardown. */
export function openPool(t: Test, options: DatabaseOptions, limitMs = 15_000) {
  const database = new Database(options, { warn() {} })
  t.teardown(() => database.end())
  const pool = database.openPool({ size: 1, limitMs })
  const methods: Pool = { query: pool.query.bind(pool), replaceAll: pool.replaceAll.bind(pool) }
  return Object.assign(database, methods)
}
