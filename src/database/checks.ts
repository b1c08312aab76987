/** What a database must have before it is used. Each check finds one fault, and says in one line what to change. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import { readOnly } from './read-only.ts'

/**
 * Resolves with what the database lacks, or with undefined. Rejects with a StartupFault for what waiting cannot fix. `open`
 * opens another session, which the caller of the check ends.
 */
export type Check = (client: pg.Client, open: () => Promise<pg.Client>) => Promise<string | undefined>

/** A setting, what it must match, and the rule that says so. */
type Rule = readonly [name: string, good: RegExp, rule: string]

/** What migrations need, too. In another encoding, PostgreSQL cannot store every name unchanged. */
const rules: readonly Rule[] = [
  ['server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be version 15 or later'],
  ['server_encoding', /^UTF8$/, "the database's encoding must be UTF8"]
]
const rulesOfCreates: readonly Rule[] = [
  ...rules,
  // A commit must wait for the disk, and for a synchronous standby where there is one.
  ['synchronous_commit', /^(?!off$|local$)/, 'synchronous_commit must be remote_write, on or remote_apply'],
  // Otherwise PostgreSQL reads an absent text in an array as the text NULL.
  ['array_nulls', /^on$/, 'array_nulls must be on']
]

/** Makes the check of settings, and that the server accepts writes. Only a standby is waited for: settings do not change. */
const makeServerCheck =
  (all: readonly Rule[]): Check =>
  async (client) => {
    const list = [...all.map(([name]) => name), 'transaction_read_only']
    const { rows } = await client.query(
      'select name, current_setting(name) as value from unnest($1::text[]) as name',
      [list]
    )
    const found = new Map<string, string>(rows.map(({ name, value }) => [name, value]))
    for (const [name, good, rule] of all) {
      const value = found.get(name) ?? ''
      if (!good.test(value)) throw new StartupFault([`${rule}; it is ${value}`])
    }
    return found.get('transaction_read_only') === 'on' ? readOnly : undefined
  }

/** Checks the server that creates plants. */
export const checkServer = makeServerCheck(rulesOfCreates)

/** What migrations need of their server. A pooler that moves a session would lose its locks, and keep them from others. */
export const migrationChecks: readonly Check[] = [
  makeServerCheck(rules),
  async (client, open) => {
    if (!(await isMoved(client, open, []))) return undefined
    throw new StartupFault([
      'a pooler moves the session of the migrations between servers: set MIGRATION_DATABASE_URL to PostgreSQL itself'
    ])
  }
]

/** How long another session keeps a pooler's server busy, in ms. Our session waits for it if the pooler has no other. */
const busyMs = 500
/** How many servers are kept busy at most. A pooler that takes its servers in turn may have as many idle ones. */
const mostBusyServers = 3

/** Executes statements, for no rows, before and after a pooler may have moved the session; returns whether one did. */
async function isMoved(
  client: pg.Client,
  open: () => Promise<pg.Client>,
  statements: readonly pg.QueryConfig[]
) {
  const server = await rehearse(client, statements)
  // A pooler gives sessions numbers of its own, not those of PostgreSQL's processes (docs/decisions/private-fields.md).
  const isDirect = server === (client as unknown as { processID: number }).processID
  for (let busy = 0; busy < mostBusyServers && !isDirect; busy++) {
    const other = await open()
    // Its transaction ends with its session, even if no server was free for it.
    const isOver = sleep(busyMs)
    void isOver.then(() => other.end())
    await Promise.race([begin(other, statements), isOver])
    if ((await rehearse(client, statements)) !== server) return true
  }
  return false
}

/** Executes the statements in a transaction that is rolled back, and returns the number of PostgreSQL's process for it. */
async function rehearse(client: pg.Client, statements: readonly pg.QueryConfig[]): Promise<number> {
  await begin(client, statements)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query('rollback')
  return rows[0].pid
}

async function begin(client: pg.Client, statements: readonly pg.QueryConfig[]) {
  await client.query('begin')
  for (const statement of statements) await client.query(statement)
}

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
      if (/^(42P01|42703)$/.test(code)) return 'the database is not migrated: run the migrations first'
      if (code === '42501') return `the role lacks a right of ops/postgresql/roles.sql: ${message}`
      if (/^(0A|42)/.test(code))
        return `the table does not fit this release; undo the change to it: ${message}`
      throw error
    }
  }
}

/** Makes the check that a query returns no row. What is missing is the column `fault` of all rows. */
export const checkNoRow =
  (select: string): Check =>
  async (client) => {
    const { rows } = await client.query(select)
    return rows.length === 0 ? undefined : rows.map(({ fault }) => fault).join('; ')
  }
