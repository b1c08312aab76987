/** Whether the database can take plants now: what the service waits for at start-up and probes for in an outage. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from './pool.ts'
import type { Check } from './wait-for-database.ts'

const statementLimitMs = 2_000
/** A server that takes a connection and says nothing holds it for as long as any statement may wait for one. */
const limitMs = 3_000

/** It must take writes: a standby does not, nor a server whose disk an operator protects. */
export const checkWritable: Check = async (client) => {
  const { rows } = await client.query('show transaction_read_only')
  return rows[0].transaction_read_only === 'off' ? undefined : 'the database is read-only'
}

// One row in any case.
const writeStatement = (selectRequired: string) => ({
  text: `
    select current_setting('transaction_read_only') as read_only
    from (values (1)) as one left join (${selectRequired}) as required on true`
})

/**
 * Resolves when the database can be reached, has what `selectRequired` (a query without rows) names, and takes writes;
 * rejects in 3 s at the most.
 */
export async function checkReadiness(database: Database, selectRequired: string): Promise<void> {
  const answer = database.query(writeStatement(selectRequired), AbortSignal.timeout(statementLimitMs))
  const end = sleep(limitMs, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${limitMs} ms`)
  })
  const { rows } = await Promise.race([answer, end])
  if (rows[0]?.read_only === 'off') return
  const error = new Error('the database is read-only')
  // The address may lead to the primary by now: a connection that is asked again and again would never be given up.
  database.reset(error)
  throw error
}
