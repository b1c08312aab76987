/** What a database must have before it is used, and the wait for it. Each fault is one line that says what to change. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import { cancelStatement } from './cancel.ts'
import { createConnector, messageOf } from './connector.ts'
import { isReported, readOnly } from './errors.ts'
import type { DatabaseOptions } from './url.ts'

/**
 * Resolves with what the database lacks, or with undefined. Rejects with a StartupFault for what waiting cannot fix. `open`
 * opens another session, which the caller of the check ends.
 */
export type Check = (client: pg.Client, open: () => Promise<pg.Client>) => Promise<string | undefined>

/** Settings, what each must match, and the rule that says so. */
const rules: readonly [name: string, good: RegExp, rule: string][] = [
  ['server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be version 15 or later'],
  // In another, PostgreSQL cannot store every name unchanged.
  ['server_encoding', /^UTF8$/, "the database's encoding must be UTF8"],
  // A commit must wait for the disk, and for a synchronous standby where there is one.
  ['synchronous_commit', /^(?!off$|local$)/, 'synchronous_commit must be remote_write, on or remote_apply'],
  // Otherwise PostgreSQL reads an absent text in an array as the text NULL.
  ['array_nulls', /^on$/, 'array_nulls must be on']
]

/** Checks the settings, and that the server accepts writes. Only a standby is waited for: settings do not change. */
export const checkServer: Check = async (client) => {
  const text = 'select array(select current_setting(name) from unnest($1::text[]) as name) as found'
  const { rows } = await client.query(text, [[...rules.map(([name]) => name), 'transaction_read_only']])
  const { found } = rows[0]
  for (const [index, [, good, rule]] of rules.entries())
    if (!good.test(found[index])) throw new StartupFault([`${rule}; it is ${found[index]}`])
  return found.at(-1) === 'on' ? readOnly : undefined
}

/** What migrations need of their server. A pooler that moves a session would lose its locks, and keep them from others. */
export const migrationChecks: readonly Check[] = [
  checkServer,
  async (client, open) => {
    if (!(await isMoved(client, open, []))) return undefined
    throw new StartupFault([
      'a pooler moves the session of the migrations between servers: set MIGRATION_DATABASE_URL to PostgreSQL itself'
    ])
  }
]

/**
 * Makes the check that these statements, which should write nothing, can be prepared and executed, also after a pooler has
 * moved the session to another server. What is missing, PostgreSQL says.
 */
export const checkStatements = (statements: readonly pg.QueryConfig[]): Check => {
  // Behind a pooler, a process of PostgreSQL may still have statements by the service's names, from an earlier start. The new
  // names are the same in each try, because the processes may keep those, too.
  const renamed = statements.map((each) => (each.name === undefined ? each : { ...each, name: randomUUID() }))
  return async (client, open) => {
    try {
      await isMoved(client, open, renamed)
      return undefined
    } catch (error) {
      const { code = '', message } = error as pg.DatabaseError
      if (/^(26000|42P05)$/.test(code))
        return 'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'
      if (code === '42P01') return 'the database is not migrated: run the migrations first'
      if (code === '42703') return `the database is not migrated to this release: ${message}`
      if (code === '42501') return `the role lacks a right of ops/postgresql/roles.sql: ${message}`
      if (/^(0A|42)/.test(code)) return `the table does not fit this release; undo the change: ${message}`
      throw error
    }
  }
}

/** How long another session keeps a pooler's server busy, in ms. Our session waits for it if the pooler has no other. */
const busyMs = 500

type Statements = readonly pg.QueryConfig[]

/** Executes statements, for no rows, before and after a pooler may have moved the session; returns whether one did. */
async function isMoved(client: pg.Client, open: () => Promise<pg.Client>, statements: Statements) {
  const server = await rehearse(client, statements)
  // A pooler gives sessions numbers of its own, not those of PostgreSQL's processes (docs/decisions.md).
  if (server === (client as unknown as { processID: number }).processID) return false
  const other = await open()
  // Its transaction ends with its session, even if no server was free for it.
  const isOver = sleep(busyMs)
  void isOver.then(() => other.end())
  await Promise.race([begin(other, statements), isOver])
  return (await rehearse(client, statements)) !== server
}

/** Executes the statements in a transaction that is rolled back, and returns the number of PostgreSQL's process for it. */
async function rehearse(client: pg.Client, statements: Statements): Promise<number> {
  await begin(client, statements)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query('rollback')
  return rows[0].pid
}

async function begin(client: pg.Client, statements: Statements) {
  await client.query('begin')
  for (const statement of statements) await client.query(statement)
}

/**
 * Connects and runs the checks, each query within `limitMs`. Resolves with the first thing that is missing, or with
 * undefined. Rejects with a StartupFault for what waiting cannot fix.
 */
export async function findMissing(options: DatabaseOptions, limitMs: number, checks: readonly Check[]) {
  const connect = createConnector(options)
  const clients: pg.Client[] = []
  const open = async () => {
    const client = await connect(limitMs, { query_timeout: limitMs })
    clients.push(client)
    return client
  }
  try {
    const client = await open()
    for (const check of checks) {
      const missing = await check(client, open)
      if (missing !== undefined) return missing
    }
    return undefined
  } catch (error) {
    if (error instanceof StartupFault) throw error
    const [client] = clients
    // A statement that waits, for a lock perhaps, would outlive its session.
    if (client && !isReported(error)) cancelStatement(client)
    return `the database ${client ? 'could not be checked' : 'cannot be reached'}: ${messageOf(error)}`
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    for (const client of clients) void client.end()
  }
}

const retryEveryMs = 250
/** An attempt ends after this time at the latest, so that a server that does not respond is reported. */
const attemptLimitMs = 30_000
/** An attempt in less time than this, or than half of the whole, would say less than the one before. */
const shortestAttemptMs = 1_000
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
  const shortestMs = Math.min(shortestAttemptMs, timeoutMs / 2)
  let known: string | undefined
  let toldAt = 0
  for (let leftMs = timeoutMs; ; leftMs = Math.ceil(deadline - performance.now())) {
    if (known !== undefined && leftMs < shortestMs) throw new StartupFault([known])
    const missing = await findMissing(current(), Math.min(attemptLimitMs, leftMs), checks)
    if (missing === undefined) return
    const now = performance.now()
    if (missing !== known || now - toldAt >= reminderMs) {
      tell(missing)
      toldAt = now
    }
    known = missing
    await sleep(retryEveryMs)
  }
}
