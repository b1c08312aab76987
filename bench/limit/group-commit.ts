/** The service's own group commit over PostgreSQL, without what the service has around it. */
import { randomUUID } from 'node:crypto'
import { Counter, Registry } from '@prometheus-io/client'
import { Database } from '../../src/database/database.ts'
import { statementLimitMs } from '../../src/database/session.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { GroupCommit } from '../../src/group-commit/group-commit.ts'
import { createSqlStore } from '../../src/plants/sql-store.ts'

/** The defaults of the service. */
const limits = { deadlineMs: 10_000, lanes: 3, batchRows: 256, batchBytes: 2 ** 21 }

interface Body {
  id: number
  name: string
  tag?: string
}

/** Opens the database that the environment names. Returns what stores a plant, and resolves once it is durable. */
export function openGroupCommit(): (body: Body) => Promise<unknown> {
  const errors = new Counter({
    name: 'errors',
    help: 'Errors of PostgreSQL',
    labelNames: ['sqlstate'],
    registers: [new Registry()]
  })
  const url = parseDatabaseUrl(`${process.env.DATABASE_URL}`)
  const store = createSqlStore(
    new Database(url, [], { warn() {} }, errors),
    statementLimitMs(limits.deadlineMs)
  )
  const groupCommit = new GroupCommit(store, limits, { onAttempt() {}, onOutage() {} })
  return ({ id, name, tag }) => {
    const row = { id: BigInt(id), name, write_id: randomUUID(), ...(tag !== undefined && { tag }) }
    return groupCommit.submit({
      id: row.id,
      row,
      bytes: 80 + 2 * (name.length + (tag?.length ?? 0))
    })
  }
}
