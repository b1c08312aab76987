/** What a database must have before it is used. Each check tries or asks, and says in one line what to change. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../failures/failure.ts'
import { isReadOnly } from './hosts.ts'

/**
 * Resolves with what a database lacks, or with undefined. Rejects with a StartupFault for what waiting cannot fix. `open`
 * opens another session; whoever runs the check ends it.
 */
export type Check = (client: pg.Client, open: () => Promise<pg.Client>) => Promise<string | undefined>

/** Makes the check of a setting. It throws, as waiting does not change a setting. */
const checkSetting =
  (name: string, good: RegExp, rule: string): Check =>
  async (client) => {
    const value = (await client.query(`show ${name}`)).rows[0][name]
    if (!good.test(value)) throw new StartupFault([`${rule}, it is ${value}`])
    return undefined
  }

/** Of settings that migrations need, too. In any other encoding, PostgreSQL cannot hold every name unchanged. */
export const settingChecks = [
  checkSetting('server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be of version 15 or later'),
  checkSetting('server_encoding', /^UTF8$/, "the database's encoding must be UTF8")
]

/** A commit must wait for the disk, and for a synchronous standby where there is one. */
const checkCommits = checkSetting(
  'synchronous_commit',
  /^(?!off$|local$)/,
  'synchronous_commit must be remote_write, on or remote_apply'
)

/** Without it, PostgreSQL reads an absent text in an array as the text NULL. */
const checkNulls = checkSetting('array_nulls', /^on$/, 'array_nulls must be on')

export const readOnly = 'the database is read-only'
const checkWritable: Check = async (client) =>
  (await isReadOnly((text) => client.query(text))) ? readOnly : undefined

/** Makes the check that a query returns no row; a row's `sql` is a part of what is missing. */
export const checkNone =
  (select: string, sayWhat: (all: string[]) => string) =>
  async (client: pg.Client): Promise<string | undefined> => {
    const { rows } = await client.query(select)
    return rows.length === 0 ? undefined : sayWhat(rows.map(({ sql }) => sql))
  }

export const sayGrants = (grants: string[]) =>
  `the role lacks a right, grant it by: ${grants.map((sql) => `${sql};`).join(' ')}`

/** Makes the check that the database has the columns of a query without rows. */
export const checkMigrated =
  (selectRequired: string) =>
  async (client: pg.Client): Promise<string | undefined> => {
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

/** How long another session keeps a pooler's server busy, in ms. Ours waits for it if the pooler has no other. */
const busyMs = 500
/** A pooler that takes its servers in turn may have as many idle ones. */
const mostOthers = 3

/**
 * Makes the check that these statements can be prepared and executed, also after a pooler has moved the session to another
 * server. They run in a transaction that is rolled back, and should write nothing anyway.
 */
export const checkStatements = (statements: readonly pg.QueryConfig[]): Check => {
  // Not the service's names, which a server may have from an earlier start; few, as they may stay on a pooler's servers.
  const own = statements.map((statement) => ({ ...statement, name: randomUUID() }))
  return async (client, open) => {
    try {
      const server = await tryOut(client, own)
      // Only PostgreSQL itself gives a session the number of its process.
      let isKnown = server === (client as unknown as { processID: number }).processID
      for (let others = 0; others < mostOthers && !isKnown; others++) {
        await occupyServer(await open(), own)
        isKnown = (await tryOut(client, own)) !== server
      }
      return undefined
    } catch (error) {
      const { code = '', message } = error as pg.DatabaseError
      if (/^(26000|42P05)$/.test(code)) return losesStatements
      if (/^(0A|42)/.test(code))
        return `the table does not fit this release, take back its change: ${message}`
      throw error
    }
  }
}

const losesStatements =
  'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'

/** Executes the statements in one transaction, and returns the process that has served it. */
async function tryOut(client: pg.Client, statements: readonly pg.QueryConfig[]): Promise<number> {
  await begin(client, statements)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query('rollback')
  return rows[0].pid
}

async function begin(client: pg.Client, statements: readonly pg.QueryConfig[]) {
  await client.query('begin')
  for (const statement of statements) await client.query(statement)
}

/** Begins a transaction, which ends with its session after `busyMs`, also if the pooler has no server for it. */
async function occupyServer(other: pg.Client, statements: readonly pg.QueryConfig[]) {
  const busy = sleep(busyMs)
  void busy.then(() => other.end())
  await Promise.race([begin(other, statements), busy])
}

/**
 * Returns what a database must pass before it is used. Of the queries, `selectRequired` has no rows and names the columns
 * that are needed, `selectMissingRights` lists the statements that grant what the role lacks, and `selectMisfits` what is
 * wrong with the table. `statements` are those of the service, for no rows.
 */
export const makeChecks = (
  selectRequired: string,
  selectMissingRights: string,
  selectMisfits: string,
  statements: readonly pg.QueryConfig[]
): Check[] => [
  ...settingChecks,
  checkCommits,
  checkNulls,
  checkWritable,
  // Before the check of the migrations: without its rights, the role cannot see the table.
  checkNone(selectMissingRights, sayGrants),
  checkMigrated(selectRequired),
  checkNone(selectMisfits, (misfits) => misfits.join('; ')),
  checkStatements(statements)
]
