/**
 * The checks that a database must pass before it is used, and the wait until it does. Each fault is
 * one line that tells an operator what to change.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import type { Client } from './client.ts'
import { createConnector, messageOf } from './connector.ts'
import { isReported, readOnly } from './errors.ts'
import type { DatabaseOptions } from './url.ts'

/**
 * Checks the database of a session. Resolves with what it lacks, or with undefined. Rejects with a
 * StartupFault if waiting cannot fix it.
 */
export type Check = (client: pg.Client) => Promise<string | undefined>

/**
 * Settings of PostgreSQL, the pattern that each must match, and the rule that an operator reads.
 */
const rules: readonly [name: string, good: RegExp, rule: string][] = [
  ['server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be version 15 or later'],
  // In another encoding, PostgreSQL cannot store every name unchanged.
  ['server_encoding', /^UTF8$/, "the database's encoding must be UTF8"],
  // A commit must wait for the disk, and for a synchronous standby if there is one.
  [
    'synchronous_commit',
    /^(?!off$|local$)/,
    'synchronous_commit must be remote_write, on or remote_apply'
  ],
  // If it is off, an absent tag is stored as the text NULL.
  ['array_nulls', /^on$/, 'array_nulls must be on']
]

/**
 * Makes a check of these rules, and of whether the server accepts writes. A read-only server is
 * worth waiting for, since a failover may make it writable. A wrong setting is not.
 */
const checkRules =
  (checked: typeof rules): Check =>
  async (client) => {
    const text =
      'select array(select current_setting(name) from unnest($1::text[]) as name) as found'
    const names = [...checked.map(([name]) => name), 'transaction_read_only']
    const { found } = (await client.query(text, [names])).rows[0]
    for (const [index, [, good, rule]] of checked.entries())
      if (!good.test(found[index])) throw new StartupFault([`${rule}; it is ${found[index]}`])
    return found.at(-1) === 'on' ? readOnly : undefined
  }

/** The check of the server at the start. */
export const checkServer = checkRules(rules)

/**
 * The check of each new session, which may be on another server than before. It leaves out
 * synchronous_commit, which each statement checks or sets for itself.
 */
export const checkNewSession = checkRules(rules.filter(([name]) => name !== 'synchronous_commit'))

/**
 * Makes a check that never fails. It calls `warn` once, with the names of settings that are off and
 * without which a crash of the database's machine loses or damages plants. Development and tests
 * may turn them off, because that is faster.
 */
export function warnOfCrashes(warn: (settings: string[]) => void): Check {
  let isTold = false
  return async (client) => {
    const text = `
      select array_agg(name order by name) as names from pg_settings
      where name in ('fsync', 'full_page_writes') and setting = 'off'`
    const { names } = (await client.query(text)).rows[0]
    if (names && !isTold) warn(names)
    isTold ||= names !== null
    return undefined
  }
}

/**
 * Selects why the table plants is not found, or null if the missing relation is another one.
 */
const selectInvisible = `
  select case
    when to_regclass('plants') is not null then null
    when found.schemas is null then 'the database is not migrated: run the migrations first'
    else format('the table plants is in the schema %s, where the role %s does not look: '
      'its search_path is %s, '
      'and it needs the right of usage of the schema',
      found.schemas, current_user, coalesce(nullif(current_setting('search_path'), ''), '""'))
  end as fault
  from (
    select string_agg(relnamespace::regnamespace::text, ', ') as schemas
    from pg_class where relname = 'plants' and relkind in ('r', 'p')
  ) as found`

/**
 * Makes a check that runs these statements, which must write nothing. If one fails, PostgreSQL's
 * message says what is missing.
 */
export const checkStatements =
  (statements: readonly pg.QueryConfig[]): Check =>
  async (client) => {
    try {
      await client.query('begin')
      for (const statement of statements) await client.query(statement)
      await client.query('rollback')
      return undefined
    } catch (error) {
      const { code = '', message } = error as pg.DatabaseError
      if (/^(26000|42P05)$/.test(code))
        return (
          'the pooler loses prepared statements: set max_prepared_statements above 0 in ' +
          'PgBouncer 1.21 or later, or pool_mode to session'
        )
      if (code === '42P01') {
        await client.query('rollback')
        const { fault } = (await client.query(selectInvisible)).rows[0]
        if (fault) return fault
      }
      if (/^(0A|42)/.test(code))
        return (
          'the table or the role does not fit this release; ' +
          `see its migrations and ops/postgresql/roles.sql: ${message}`
        )
      throw error
    }
  }

/**
 * Connects, and runs the checks. Resolves with the first thing that is missing, or with undefined.
 * Rejects with a StartupFault if waiting cannot fix it.
 */
async function findMissing(options: DatabaseOptions, limitMs: number, checks: readonly Check[]) {
  const connect = createConnector(options)
  const clients: Client[] = []
  try {
    // Run the checks in two sessions at once. Only then does a pooler show that it mixes up the
    // prepared statements of its clients.
    while (clients.length < 2) {
      const client = await connect(limitMs, { query_timeout: limitMs })
      clients.push(client)
      for (const check of checks) {
        const missing = await check(client)
        if (missing !== undefined) return missing
      }
    }
    return undefined
  } catch (error) {
    if (error instanceof StartupFault) throw error
    // A statement that waits, for example for a lock, would go on after its session has ended.
    if (!isReported(error)) for (const client of clients) client.cancelStatement()
    return `the database cannot be ${clients[0] ? 'checked' : 'reached'}: ${messageOf(error)}`
  } finally {
    // Do not await the end: a server that stands still would never answer.
    for (const client of clients) void client.end()
  }
}

/** PostgreSQL logs each attempt with a wrong password, so do not retry faster. */
const retryEveryMs = 500
/**
 * How long one attempt may take: as long as the start may still wait, but within these bounds. So a
 * server that does not respond is reported in time.
 */
const attemptMs = { shortest: 1_000, longest: 30_000 }

/**
 * Waits until the database passes every check. `current` returns its options for each attempt; the
 * wait ends when it returns undefined. Whenever what the database lacks changes, `tell` is called
 * with it. After `timeoutMs`, throws a StartupFault with what it lacks. If waiting cannot fix that,
 * throws at once, unless `timeoutMs` is Infinity.
 */
export async function waitForDatabase(
  current: () => DatabaseOptions | undefined,
  timeoutMs: number,
  checks: readonly Check[],
  tell: (missing: string) => void
) {
  const deadline = performance.now() + timeoutMs
  let told: string | undefined
  for (let options = current(); options; options = current()) {
    const limitMs = Math.min(
      attemptMs.longest,
      Math.max(attemptMs.shortest, deadline - performance.now())
    )
    const missing = await findMissing(options, Math.ceil(limitMs), checks).catch(
      (fault: StartupFault) => {
        if (timeoutMs < Number.POSITIVE_INFINITY) throw fault
        return fault.message
      }
    )
    if (missing === undefined) return
    if (performance.now() + retryEveryMs >= deadline) throw new StartupFault([missing])
    if (missing !== told) tell(missing)
    told = missing
    await sleep(retryEveryMs)
  }
}
