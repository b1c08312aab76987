/** Waiting for a database that passes its checks. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import { cancelStatement } from './cancel.ts'
import type { Check } from './checks.ts'
import { isReported } from './errors.ts'
import { messageOf, openSession } from './hosts.ts'
import type { DatabaseOptions } from './url.ts'

interface Finding {
  /** What the database lacks, or why that could not be found out. */
  readonly missing: string
  /** It could not be found out within our own time limit. */
  readonly isOurLimit: boolean
}

/** Returns whether a limit of ours ended a session or a query, or an attempt at one of several hosts: so the driver says. */
const isOurLimit = (error: unknown): boolean =>
  /^(timeout expired|Query read timeout)$/.test((error as Error).message) ||
  (error instanceof AggregateError && error.errors.some(isOurLimit))

/**
 * Connects and runs the checks, each query within `limitMs`. Resolves with the first thing that is missing, or with
 * undefined. Rejects with a StartupFault for what waiting cannot fix.
 */
export async function findMissing(
  options: DatabaseOptions,
  limitMs: number,
  checks: readonly Check[]
): Promise<Finding | undefined> {
  const limit = Math.max(1, Math.ceil(limitMs))
  const clients: pg.Client[] = []
  const open = async () => {
    const client = await openSession(options, { connectionTimeoutMillis: limit, query_timeout: limit })
    clients.push(client)
    return client
  }
  let finding: Finding | undefined
  try {
    const client = await open()
    for (const check of checks) {
      const missing = await check(client, open)
      if (missing === undefined) continue
      finding = { missing, isOurLimit: false }
      break
    }
  } catch (error) {
    if (error instanceof StartupFault) throw error
    const [client] = clients
    // A statement that waits, for a lock perhaps, would outlive its session.
    if (client && !isReported(error)) cancelStatement(client)
    const missing = `the database ${client ? 'could not be checked' : 'cannot be reached'}: ${messageOf(error)}`
    finding = { missing, isOurLimit: isOurLimit(error) }
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    for (const client of clients) void client.end()
  }
  return finding
}

const retryEveryMs = 250
/** An attempt ends after this time at the latest, so that a server that does not respond is reported. */
const attemptLimitMs = 30_000
/** What is still missing after this time is reported again. */
const reminderMs = 60_000

/**
 * Returns as soon as the database that `current` returns can be reached and passes every check; tries again until
 * `timeoutMs` is over. Calls `tell` with what it waits for: at once, when that changes, and every minute. Throws a
 * StartupFault that says what was still missing at the end.
 */
export async function waitForDatabase(
  current: () => DatabaseOptions,
  timeoutMs: number,
  checks: readonly Check[],
  tell: (missing: string) => void = () => {}
) {
  const deadline = performance.now() + timeoutMs
  let known: string | undefined
  let toldAt = 0
  for (;;) {
    const limitMs = Math.min(attemptLimitMs, deadline - performance.now())
    const finding = await findMissing(current(), limitMs, checks)
    if (finding === undefined) return
    const now = performance.now()
    const isShort = limitMs < Math.min(attemptLimitMs / 3, timeoutMs / 2)
    // A short attempt that our own limit has ended says less than the attempt before.
    const missing = known !== undefined && isShort && finding.isOurLimit ? known : finding.missing
    if (deadline - now < retryEveryMs) throw new StartupFault([missing])
    if (missing !== known || now - toldAt >= reminderMs) {
      tell(missing)
      toldAt = now
    }
    known = missing
    await sleep(retryEveryMs)
  }
}
