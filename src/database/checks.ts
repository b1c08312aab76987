/** What a database must have before it is used. Each check finds one fault, and says in one line how to mend it. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { StartupFault } from '../startup-fault.ts'
import { isReadOnly, readOnly } from './read-only.ts'

/**
 * Resolves with what the database lacks, or with undefined. Rejects with a StartupFault for what waiting cannot fix. `open`
 * opens another session, which the caller of the check ends.
 */
export type Check = (client: pg.Client, open: () => Promise<pg.Client>) => Promise<string | undefined>

/** Makes the check of a setting. It rejects with a StartupFault: waiting does not change a setting. */
const checkSetting =
  (name: string, good: RegExp, rule: string): Check =>
  async (client) => {
    const value = (await client.query(`show ${name}`)).rows[0][name]
    if (!good.test(value)) throw new StartupFault([`${rule}; it is ${value}`])
    return undefined
  }

/** The checks of settings that migrations need, too. In another encoding, PostgreSQL cannot store every name unchanged. */
export const settingChecks = [
  checkSetting('server_version', /^(1[5-9]|[2-9]\d)/, 'PostgreSQL must be version 15 or later'),
  checkSetting('server_encoding', /^UTF8$/, "the database's encoding must be UTF8")
]

/** A commit must wait for the disk, and for a synchronous standby where there is one. */
const checkCommits = checkSetting(
  'synchronous_commit',
  /^(?!off$|local$)/,
  'synchronous_commit must be remote_write, on or remote_apply'
)

/** With array_nulls off, PostgreSQL reads an absent text in an array as the text NULL. */
const checkNulls = checkSetting('array_nulls', /^on$/, 'array_nulls must be on')

const checkWritable: Check = async (client) =>
  (await isReadOnly((text) => client.query(text))) ? readOnly : undefined

/** Makes the check that a query returns no row. `describe` says what is missing, given the column `sql` of all rows. */
export const checkNoRow =
  (select: string, describe: (all: string[]) => string) =>
  async (client: pg.Client): Promise<string | undefined> => {
    const { rows } = await client.query(select)
    return rows.length === 0 ? undefined : describe(rows.map(({ sql }) => sql))
  }

/** Says which statements grant the missing rights. */
export const describeGrants = (grants: string[]) =>
  `the role lacks rights; run: ${grants.map((sql) => `${sql};`).join(' ')}`

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

/** How long another session keeps a pooler's server busy, in ms. Our session waits for it if the pooler has no other. */
const busyMs = 500
/** How many servers are kept busy at most. A pooler that takes its servers in turn may have as many idle ones. */
const mostBusyServers = 3

/**
 * Makes the check that these statements can be prepared and executed, also after a pooler has moved the session to another
 * server. They should write nothing; in any case, their transaction is rolled back.
 */
export const checkStatements = (statements: readonly pg.QueryConfig[]): Check => {
  let renamed: pg.QueryConfig[] | undefined
  return async (client, open) => {
    // Behind a pooler, a process of PostgreSQL may still have statements by the service's names, from an earlier start. The new
    // names are the same in each try, because the processes may keep those, too.
    renamed ??= statements.map((statement) => ({ ...statement, name: randomUUID() }))
    try {
      const server = await rehearse(client, renamed)
      // A pooler gives sessions numbers of its own, not those of PostgreSQL's processes.
      const isDirect = server === (client as unknown as { processID: number }).processID
      let hasMoved = false
      for (let busy = 0; busy < mostBusyServers && !isDirect && !hasMoved; busy++) {
        await occupyServer(await open(), renamed)
        hasMoved = (await rehearse(client, renamed)) !== server
      }
      return undefined
    } catch (error) {
      const { code = '', message } = error as pg.DatabaseError
      if (/^(26000|42P05)$/.test(code))
        return 'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'
      if (/^(0A|42(?!501))/.test(code))
        return `the table does not fit this release; undo the change to it: ${message}`
      throw error
    }
  }
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

/** Keeps a server busy with a transaction, which ends with its session after `busyMs`, even if no server is free for it. */
async function occupyServer(other: pg.Client, statements: readonly pg.QueryConfig[]) {
  const busy = sleep(busyMs)
  void busy.then(() => other.end())
  await Promise.race([begin(other, statements), busy])
}

/** What the checks ask of a database. */
interface Requirements {
  /** Returns no rows, and names the columns that are needed. */
  readonly selectRequired: string
  /** Lists the statements that grant what the role lacks. */
  readonly selectMissingRights: string
  /** Lists what is wrong with the table. */
  readonly selectMisfits: string
  /** The statements of the service, for no rows. */
  readonly statements: readonly pg.QueryConfig[]
}

/** Returns the checks that a database must pass before it is used, in the order in which an operator would mend it. */
export const makeChecks = (required: Requirements): Check[] => [
  ...settingChecks,
  checkCommits,
  checkNulls,
  checkWritable,
  // Before the check of the migrations: without its rights, the role cannot see the table.
  checkNoRow(required.selectMissingRights, describeGrants),
  checkMigrated(required.selectRequired),
  checkNoRow(required.selectMisfits, (misfits) => misfits.join('; ')),
  checkStatements(required.statements)
]
