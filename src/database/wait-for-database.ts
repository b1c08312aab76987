/** Waiting, at start-up, for a database that this build can use. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../failures/failure.ts'
import { isUnmigrated } from './errors.ts'
import { connect, messageOf } from './hosts.ts'
import type { ConnectionOptions } from './url.ts'

const pauseMs = 250
/** A server that does not respond for so long is reported. */
const tryMs = 30_000
/** An attempt with less time may end by our own deadline and say less than the one before. */
const fullTryMs = 10_000
/** What is missing for so long is reported again. */
const reminderMs = 60_000

/** What a database lacks; undefined when it has all that is asked for. */
export type Check = (client: pg.Client) => Promise<string | undefined>

/** Makes the check of a setting that waiting does not change. */
const checkSetting =
  (name: string, good: RegExp, rule: string): Check =>
  async (client) => {
    const { rows } = await client.query(`show ${name}`)
    const value = rows[0][name]
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

/** Returns the check that the role has every right: `selectMissing` lists, as `sql`, the statements that grant those it lacks. */
export const checkRights =
  (selectMissing: string): Check =>
  async (client) => {
    const { rows } = await client.query(selectMissing)
    if (rows.length === 0) return undefined
    return `the role lacks a right, which the owner grants by: ${rows.map(({ sql }) => `${sql};`).join(' ')}`
  }

/** Returns the check that the database has what `selectRequired`, a query without rows, names. */
export const checkMigrated =
  (selectRequired: string): Check =>
  async (client) => {
    try {
      await client.query(selectRequired)
      return undefined
    } catch (error) {
      if (isUnmigrated(error)) return 'the database is not migrated: run the migrations first'
      throw error
    }
  }

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
  let told: string | undefined
  let toldAt = 0
  for (;;) {
    const limitMs = Math.min(tryMs, deadline - performance.now())
    const missing = await findMissing(current(), limitMs, checks)
    if (missing === undefined) return
    const now = performance.now()
    if (known === undefined || limitMs >= Math.min(fullTryMs, timeoutMs / 2)) known = missing
    if (deadline - now < pauseMs) throw new StartupFault([known])
    if (missing !== told || now - toldAt >= reminderMs) {
      tell(missing)
      told = missing
      toldAt = now
    }
    await sleep(pauseMs)
  }
}

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
    missing = `the database cannot be reached: ${messageOf(error)}`
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    void client?.end()
  }
  return missing
}
