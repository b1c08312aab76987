/** Whether the database can take plants now. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Failure } from '../failures/failure.ts'
import type { Database } from './pool.ts'
import { isUnmigrated } from './required-schema.ts'

const statementLimitMs = 2_000
/** A server that takes a connection and says nothing holds it for as long as any statement may wait for one. */
const limitMs = 3_000

// One row in any case.
const writeStatement = (selectRequired: string) => ({
  text: `
    select current_setting('transaction_read_only') as read_only
    from (values (1)) as one left join (${selectRequired}) as required on true`
})

/**
 * Resolves when the database can be reached, has what `selectRequired` (a query without rows) names, and takes writes;
 * rejects with the Failure NotReady, which says what is missing, in 3 s at the most.
 */
export async function checkReadiness(database: Database, selectRequired: string): Promise<void> {
  const answer = database.query(writeStatement(selectRequired), AbortSignal.timeout(statementLimitMs))
  const end = sleep(limitMs, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${limitMs} ms`)
  })
  const { rows } = await Promise.race([answer, end]).catch((cause) => {
    throw new Failure('NotReady', { message: nameFault(cause), cause })
  })
  if (rows[0]?.read_only === 'off') return
  const failure = new Failure('NotReady', { message: 'the database is read-only' })
  // The address may lead to the primary by now: a connection that is asked again and again would never be given up.
  database.reset(failure)
  throw failure
}

function nameFault(error: { code?: string }): string {
  if (isUnmigrated(error)) return 'the database is not migrated'
  if (error.code === '42501') return 'the database does not let the service read its table'
  return 'the database cannot be reached'
}
