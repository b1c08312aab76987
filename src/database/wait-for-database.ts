/** Waiting for a database that passes its checks. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../failures/failure.ts'
import type { Check } from './checks.ts'
import { isReported } from './errors.ts'
import { connect, messageOf } from './hosts.ts'
import { cancelStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/**
 * Connects and runs the checks, each query within `timeoutMs`; returns the first thing that is missing, or undefined.
 * Rejects with a StartupFault for what waiting cannot fix.
 */
export async function findMissing(options: ConnectionOptions, timeoutMs: number, checks: Check[]) {
  const limit = Math.max(1, Math.ceil(timeoutMs))
  const clients: pg.Client[] = []
  const open = async () => {
    const client = await connect(options, { connectionTimeoutMillis: limit, query_timeout: limit })
    clients.push(client)
    return client
  }
  let client: pg.Client | undefined
  let missing: string | undefined
  try {
    client = await open()
    for (const check of checks) missing ??= await check(client, open)
  } catch (error) {
    if (error instanceof StartupFault) throw error
    // A statement that waits, for a lock perhaps, would outlive its connection.
    if (client && !isReported(error)) cancelStatement(client)
    missing = `the database ${client ? 'could not be checked' : 'cannot be reached'}: ${messageOf(error)}`
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    for (const client of clients) void client.end()
  }
  return missing
}

const retryEveryMs = 250
/** A server that does not respond for this long is reported. An attempt with less than a third of it is short. */
const tryMs = 30_000
/** What the driver says when a connection or a statement took too long. */
const ownLimit = /\b(timeout expired|Query read timeout)$/
/** What is still missing after this time is reported again. */
const reminderMs = 60_000

/**
 * Returns as soon as the database that `current` returns can be reached and passes every check; tries again until
 * `timeoutMs` is over. Calls `tell` with what it waits for: at once, when that changes, and every minute. Throws a
 * StartupFault that says what was still missing at the end.
 */
export async function waitForDatabase(
  current: () => ConnectionOptions,
  timeoutMs: number,
  checks: Check[],
  tell: (missing: string) => void = () => {}
) {
  const deadline = performance.now() + timeoutMs
  let known: string | undefined
  let toldAt = 0
  for (;;) {
    const limitMs = Math.min(tryMs, deadline - performance.now())
    let missing = await findMissing(current(), limitMs, checks)
    if (missing === undefined) return
    const now = performance.now()
    // With little time left, an attempt that ends by our own limit says less than the one before.
    const isShort = limitMs < Math.min(tryMs / 3, timeoutMs / 2)
    if (known !== undefined && isShort && ownLimit.test(missing)) missing = known
    if (deadline - now < retryEveryMs) throw new StartupFault([missing])
    if (missing !== known || now - toldAt >= reminderMs) {
      tell(missing)
      toldAt = now
    }
    known = missing
    await sleep(retryEveryMs)
  }
}
