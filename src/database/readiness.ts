/** Whether the database can take plants now: a start waits for that, and it is probed in an outage and while idle. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../failures/failure.ts'
import { diagnose, isReported } from './errors.ts'
import { connect, isReadOnly, messageOf } from './hosts.ts'
import { cancelStatement } from './statement.ts'
import type { ConnectionOptions } from './url.ts'

/** Resolves with what a database lacks, or with undefined. */
export type Check = (client: pg.Client) => Promise<string | undefined>

/** Makes the check of a setting. It throws, as waiting does not change a setting. */
const checkSetting =
  (name: string, good: RegExp, rule: string): Check =>
  async (client) => {
    const value = (await client.query(`show ${name}`)).rows[0][name]
    if (!good.test(value)) throw new StartupFault([`${rule}, it is ${value}`])
    return undefined
  }

/** In any other encoding, PostgreSQL cannot hold every name unchanged. */
export const checkEncoding = checkSetting('server_encoding', /^UTF8$/, "the database's encoding must be UTF8")

/** A commit must wait for the disk, and for a synchronous standby where there is one. */
export const checkCommits = checkSetting(
  'synchronous_commit',
  /^(?!off$|local$)/,
  'synchronous_commit must be remote_write, on or remote_apply'
)

const readOnly = 'the database is read-only'
const checkWritable: Check = async (client) =>
  (await isReadOnly((text) => client.query(text))) ? readOnly : undefined

export const checkRights =
  (selectMissing: string): Check =>
  async (client) => {
    const { rows } = await client.query(selectMissing)
    if (rows.length === 0) return undefined
    return `the role lacks a right, grant it by: ${rows.map(({ sql }) => `${sql};`).join(' ')}`
  }

/** Returns the check that the database has the columns of a query without rows. */
export const checkMigrated =
  (selectRequired: string): Check =>
  async (client) => {
    try {
      await client.query(selectRequired)
      return undefined
    } catch (error) {
      // A table or a column is not there.
      const isUnmigrated = /^(42P01|42703)$/.test(String((error as pg.DatabaseError).code))
      if (isUnmigrated) return 'the database is not migrated: run the migrations first'
      throw error
    }
  }

/**
 * Returns what a database must pass before it is used. `selectMissingRights` lists, as `sql`, the statements
 * that grant what the role lacks; `selectRequired`, a query without rows, names the columns that it needs.
 */
export const makeChecks = (selectMissingRights: string, selectRequired: string): Check[] => [
  checkEncoding,
  checkCommits,
  checkWritable,
  // Before the check of the migrations: without its rights, the role cannot see the table.
  checkRights(selectMissingRights),
  checkMigrated(selectRequired)
]

/**
 * Connects once and runs the checks, within `timeoutMs`; returns the first thing that is missing, or undefined.
 * Rejects with a StartupFault for what waiting cannot fix.
 */
export async function findMissing(options: ConnectionOptions, timeoutMs: number, checks: Check[]) {
  const limit = Math.max(1, Math.ceil(timeoutMs))
  let client: pg.Client | undefined
  let missing: string | undefined
  try {
    client = await connect(options, { connectionTimeoutMillis: limit, query_timeout: limit })
    for (const check of checks) missing ??= await check(client)
  } catch (error) {
    if (error instanceof StartupFault) throw error
    // A statement that waits, for a lock perhaps, would outlive its connection.
    if (client && !isReported(error)) cancelStatement(client)
    missing = `the database ${client ? 'could not be checked' : 'cannot be reached'}: ${messageOf(error)}`
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    void client?.end()
  }
  return missing
}

const pauseMs = 250
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
    if (deadline - now < pauseMs) throw new StartupFault([missing])
    if (missing !== known || now - toldAt >= reminderMs) {
      tell(missing)
      toldAt = now
    }
    known = missing
    await sleep(pauseMs)
  }
}

/**
 * Resolves when the database can be reached, has what `selectRequired` (a query without rows) names, and accepts writes;
 * rejects otherwise. Takes 4 s at most.
 */
export async function checkReadiness(
  database: {
    query(text: pg.QueryConfig, signal: AbortSignal): Promise<pg.QueryResult>
    reset(cause: unknown): void
  },
  selectRequired: string
): Promise<void> {
  // For both statements together; a cancelled one ends within two seconds more.
  const signal = AbortSignal.timeout(2_000)
  const query = (text: string) => database.query({ text }, signal)
  await query(selectRequired)
  if (!(await isReadOnly(query))) return
  const error = new Error(readOnly)
  // The address may lead to the primary by now, but a connection that every probe uses would never be closed.
  database.reset(error)
  throw error
}

const idleProbeEveryMs = 5_000

/**
 * Probes the database while no create would notice its loss. Calls `onAway` with the time, by
 * `performance.now()`, since when no probe has found it. Returns a function that stops it.
 */
export function probeWhileIdle(
  probe: () => Promise<void>,
  isIdle: () => boolean,
  onAway: (since: number) => void
): () => void {
  let awaySince: number | undefined
  let timer = setTimeout(look, idleProbeEveryMs).unref()
  let isClosed = false

  async function look() {
    const began = performance.now()
    // While a create waits, the last probe's finding stands: only a create that succeeds is a sign of life.
    if (isIdle()) {
      const isAway = await probe().then(() => false, isLost)
      awaySince = isAway ? (awaySince ?? began) : undefined
    }
    if (isClosed) return
    if (awaySince !== undefined) onAway(awaySince)
    timer = setTimeout(look, idleProbeEveryMs).unref()
  }

  return () => {
    isClosed = true
    clearTimeout(timer)
  }
}

/** A database that responds is not away, even if a table is missing, or locked until the probe was cancelled. */
function isLost(error: unknown): boolean {
  const { kind } = diagnose(error)
  return kind === 'lost' || kind === 'away'
}
