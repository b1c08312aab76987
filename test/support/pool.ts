/** A pool of one connection. */
import type { Test } from 'tap'
import { createDatabases } from '../../src/database/pool.ts'
import type { ConnectionOptions } from '../../src/database/url.ts'

/** Opens a pool, with its owner's methods; ends it at teardown. */
export function openPool(t: Test, connection: ConnectionOptions, limitMs = 15_000) {
  const databases = createDatabases(connection, { warn() {} })
  t.teardown(() => databases.end())
  const { query, reset } = databases.open({ size: 1, limitMs })
  return Object.assign(databases, { query, reset })
}
