/** What a database must have before it is used, and the wait for it. Each fault is one line that says what to change. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import type { Client } from './client.ts'
import { createConnector, messageOf } from './connector.ts'
import { isReported, readOnly } from './errors.ts'
import type { DatabaseOptions } from './url.ts'

/** Resolves with what a session's database lacks, or with undefined. Rejects with a StartupFault for what waiting cannot fix. */
export type Check = (client: pg.Client) => Promise<string | undefined>

/** Settings, what each must match, and the rule that says so. */
const rules: readonly [name: string, good: RegExp, rule: string][] = [
  ['server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be version 15 or later'],
  // In another, PostgreSQL cannot store every name unchanged.
  ['server_encoding', /^UTF8$/, "the database's encoding must be UTF8"],
  // A commit must wait for the disk, and for a synchronous standby where there is one.
  ['synchronous_commit', /^(?!off$|local$)/, 'synchronous_commit must be remote_write, on or remote_apply'],
  // Where it is off, an absent tag would be stored as the text NULL.
  ['array_nulls', /^on$/, 'array_nulls must be on']
]

/**
 * Makes the check of these rules, and that the server accepts writes. Only a standby is waited for:
 * settings do not change.
 */
const checkRules =
  (checked: typeof rules): Check =>
  async (client) => {
    const text = 'select array(select current_setting(name) from unnest($1::text[]) as name) as found'
    const names = [...checked.map(([name]) => name), 'transaction_read_only']
    const { found } = (await client.query(text, [names])).rows[0]
    for (const [index, [, good, rule]] of checked.entries())
      if (!good.test(found[index])) throw new StartupFault([`${rule}; it is ${found[index]}`])
    return found.at(-1) === 'on' ? readOnly : undefined
  }

/** For the start. */
export const checkServer = checkRules(rules)

/**
 * For each new session, which may be on another server. Each statement sets synchronous_commit for
 * itself.
 */
export const checkNewSession = checkRules(rules.filter(([name]) => name !== 'synchronous_commit'))

/**
 * Makes a check that finds nothing missing, but calls `warn` once, with names of settings with which a crash of the database's
 * machine loses or damages plants. Development and tests may want them, as they are fast.
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
 * Says why the table plants is not found, or null where it is another relation that is not found.
 */
const selectInvisible = `
  select case
    when to_regclass('plants') is not null then null
    when found.schemas is null then 'the database is not migrated: run the migrations first'
    else format('the table plants is in the schema %s, where the role %s does not look: its search_path is %s, '
      'and it needs the right of usage of the schema',
      found.schemas, current_user, coalesce(nullif(current_setting('search_path'), ''), '""'))
  end as fault
  from (
    select string_agg(relnamespace::regnamespace::text, ', ') as schemas
    from pg_class where relname = 'plants' and relkind in ('r', 'p')
  ) as found`

/** Makes the check that these statements, which should write nothing, succeed. PostgreSQL says what is missing. */
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
        return 'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'
      if (code === '42P01') {
        await client.query('rollback')
        const { fault } = (await client.query(selectInvisible)).rows[0]
        if (fault) return fault
      }
      if (/^(0A|42)/.test(code))
        return `the table or the role does not fit this release; see its migrations and ops/postgresql/roles.sql: ${message}`
      throw error
    }
  }

/** Connects and runs the checks. Resolves with the first thing that is missing, if any; rejects for what waiting cannot fix. */
async function findMissing(options: DatabaseOptions, limitMs: number, checks: readonly Check[]) {
  const connect = createConnector(options)
  const clients: Client[] = []
  try {
    // Only two sessions show what a pooler shares between them.
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
    // A statement that waits, for a lock perhaps, would outlive its session.
    if (!isReported(error)) for (const client of clients) client.cancelStatement()
    return `the database cannot be ${clients[0] ? 'checked' : 'reached'}: ${messageOf(error)}`
  } finally {
    // Not awaited: a stalled server would keep end() waiting.
    for (const client of clients) void client.end()
  }
}

/** Not shorter: PostgreSQL logs each attempt with a wrong password. */
const retryEveryMs = 500
/** How long an attempt may take, so that a server that does not respond is reported: the rest of the time, within these. */
const attemptMs = { shortest: 1_000, longest: 30_000 }

/**
 * Waits until the database that `current` returns passes every check, or until that returns undefined. Calls `tell` with what
 * it lacks whenever that changes. Throws a StartupFault with what it lacks after `timeoutMs`, or for what waiting cannot fix,
 * unless it waits for ever.
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
    const limitMs = Math.min(attemptMs.longest, Math.max(attemptMs.shortest, deadline - performance.now()))
    const missing = await findMissing(options, Math.ceil(limitMs), checks).catch((fault: StartupFault) => {
      if (timeoutMs < Number.POSITIVE_INFINITY) throw fault
      return fault.message
    })
    if (missing === undefined) return
    if (performance.now() + retryEveryMs >= deadline) throw new StartupFault([missing])
    if (missing !== told) tell(missing)
    told = missing
    await sleep(retryEveryMs)
  }
}
