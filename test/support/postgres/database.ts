/** A PostgreSQL database for each test file. */
import { hash, randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { migrateFile, root, run } from '../process.ts'
import type { Teardown } from '../teardown.ts'
import { until } from '../until.ts'
import { query } from './query.ts'

export { query }

interface Options {
  /** False for a database without the table. */
  migrated?: boolean
  /** PostgreSQL's name of an encoding. */
  encoding?: string
}

/** The superuser's URL of the server that `npm test` has started. */
export function serverUrl(): string {
  const url = process.env.TEST_DATABASE_URL
  if (url === undefined) throw new Error('TEST_DATABASE_URL is not set: run the tests by npm test')
  return url
}

/** Returns the URL of another database of the same server. */
export function urlOf(server: string, database: string): string {
  const url = new URL(server)
  url.pathname = `/${database}`
  return url.href
}

/** Makes a database with a random name on the tests' server; drops it at teardown. Returns its URL. */
export async function createDatabase(
  t: Teardown,
  { migrated = true, encoding = 'UTF8' }: Options = {}
) {
  const server = serverUrl()
  const name = `test_${randomBytes(8).toString('hex')}`
  if (migrated)
    await query(server, `create database ${name} template ${await makeTemplate(t, server)}`)
  else
    await query(
      server,
      `create database ${name} encoding '${encoding}' template template0 locale 'C'`
    )
  t.teardown(() => query(server, `drop database ${name} with (force)`))
  return urlOf(server, name)
}

/** Makes the migrated database that others are copies of, unless another test file has made it; returns its name. */
async function makeTemplate(t: Teardown, server: string): Promise<string> {
  // A recipe's copy has other migrations, and the same server.
  const migrations = readdirSync(join(root, 'migrations')).sort().join()
  const name = `plants_${hash('sha256', migrations).slice(0, 8)}`
  const client = new pg.Client(server)
  await client.connect()
  try {
    await client.query('select pg_advisory_lock(1)')
    const { rows } = await client.query('select from pg_database where datname = $1', [name])
    if (rows.length > 0) return name
    await client.query(`create database ${name}_new encoding 'UTF8' template template0 locale 'C'`)
    await migrate(t, urlOf(server, `${name}_new`))
    await client.query(`alter database ${name}_new rename to ${name}`)
    return name
  } finally {
    await client.end()
  }
}

/** Migrates a database as an operator does, by this release or by another's `file`. Throws with what the process says if it fails. */
export async function migrate(t: Teardown, url: string, file = migrateFile): Promise<void> {
  const { code, stderr } = await run(t, file, { DATABASE_URL: url, STARTUP_TIMEOUT_MS: '120000' })
  if (code !== 0) throw new Error(stderr)
}

/** Makes a role that may do what the service does, until teardown. Returns its name and how to change its password. */
export async function createRole(t: Teardown, url: string, password: string) {
  const name = `role_${randomBytes(8).toString('hex')}`
  await query(url, `create role ${name} login password '${password}'`)
  const [{ plants }] = await query(url, `select to_regclass('plants') as plants`)
  if (plants) await query(url, `grant select, insert on plants to ${name}`)
  t.teardown(async () => {
    await query(url, `drop owned by ${name}`)
    await query(url, `drop role ${name}`)
  })
  return {
    name,
    setPassword: (next: string) => query(url, `alter role ${name} password '${next}'`)
  }
}

/** Runs a statement on a connection that stays open until teardown, and returns the connection. */
export async function openSession(t: Teardown, url: string, sql: string) {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.end())
  await client.query(sql)
  return client
}

/** Locks everybody else out of the table until the session that it returns rolls back. */
export const lockTable = (t: Teardown, url: string) =>
  openSession(t, url, 'begin; lock table plants in access exclusive mode')

/** Returns when a statement of the service waits for a lock in this database. */
export async function untilBlocked(url: string) {
  const blocked = `
    select pid from pg_stat_activity
    where application_name = 'plant-store' and datname = current_database() and wait_event_type = 'Lock'`
  await until(
    'a statement waits for a lock',
    () => query(url, blocked),
    ({ length }) => length > 0
  )
}

/** Changes a setting of the whole server, and returns when its sessions have it. */
export async function setServer(url: string, name: string, value: string) {
  await query(url, `alter system set ${name} = '${value}'`)
  await query(url, 'select pg_reload_conf()')
  await until(
    `${name} is ${value}`,
    () => query(url, 'select current_setting($1) as setting', [name]),
    ([row]) => row.setting === value
  )
}

/** Adds a trigger to the table, with statements of PL/pgSQL that return the row; drops it at teardown, or when it is told to. */
export async function addTrigger(t: Teardown, url: string, statements: string) {
  const body = `begin ${statements} return new; end`
  await query(url, `create function rule() returns trigger language plpgsql as $$ ${body} $$`)
  await query(
    url,
    `create trigger rule before insert on plants for each row execute function rule()`
  )
  const drop = () => query(url, 'drop function if exists rule cascade')
  t.teardown(drop)
  return drop
}
