/** The roles that an operator makes by ops/postgresql/roles.sql have the rights that they need, and no others. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { scaled } from '../../dev/slowness.ts'
import { migrate } from '../../src/database/migrate.ts'
import { waitForDatabase } from '../../src/database/readiness.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { databaseChecks } from '../../src/plants/statements.ts'
import { createDatabase, query } from '../support/database.ts'
import { failure, headers, replay, startService, success } from '../support/service.ts'

const sql = readFileSync(join(import.meta.dirname, '../../ops/postgresql/roles.sql'), 'utf8')
const server = process.env.TEST_DATABASE_URL as string
const patienceMs = scaled(30_000)

/** The URL of a database for another role, whose password is `thyme`. */
function urlOf(role: string, database: string) {
  const url = new URL(database)
  url.username = role
  url.password = 'thyme'
  return url.href
}

const drop = (...roles: string[]) =>
  query(server, roles.map((role) => `drop role if exists ${role};`).join(' '))

/** Runs the file as an operator with this URL, migrates as the owner, and returns the URL of the service. */
async function setUp(operator: string, database: string) {
  // A release before may have migrated already, and the file can be run again.
  await query(operator, sql)
  for (const role of ['owner', 'service']) await query(operator, `alter role ${role} password 'thyme'`)
  const migration = { database: parseDatabaseUrl(urlOf('owner', database)), startupTimeoutMs: patienceMs }
  await migrate(migration, 'up')
  await query(operator, sql)
  return urlOf('service', database)
}

async function assertRights(t: Test, url: string) {
  await waitForDatabase(() => parseDatabaseUrl(url), patienceMs, databaseChecks)
  const service = await startService(t, { DATABASE_URL: url })
  const keyed = { headers: { ...headers, 'idempotency-key': 'first' } }
  t.strictSame(await service.post({ id: 1, name: 'n' }, keyed), success({ name: 'n' }))
  t.strictSame(await service.post({ id: 1, name: 'n' }, keyed), replay({ name: 'n' }))
  t.strictSame(await service.post({ id: 1, name: 'n' }), failure(409, 'a plant with this id exists already'))
  const forbidden = [
    'update plants set name = name',
    'delete from plants',
    'truncate plants',
    'drop table plants',
    'select from migrations',
    'create table seeds ()',
    'create temporary table seeds ()'
  ]
  for (const statement of forbidden) await t.rejects(query(url, statement), { code: '42501' }, statement)
}

t.test('made by a superuser', async (t) => {
  t.teardown(() => drop('service', 'owner'))
  const database = await createDatabase(t, { migrated: false })
  await assertRights(t, await setUp(database, database))
})

t.test("made by the database's owner, who is no superuser", async (t) => {
  t.teardown(() => drop('service', 'owner', 'operator'))
  const database = await createDatabase(t, { migrated: false })
  await query(server, `create role operator login createrole password 'thyme'`)
  await query(server, `alter database ${new URL(database).pathname.slice(1)} owner to operator`)
  await assertRights(t, await setUp(urlOf('operator', database), database))
})

t.test('a table that the superuser had migrated gets its owner', async (t) => {
  t.teardown(() => drop('service', 'owner'))
  const database = await createDatabase(t)
  await assertRights(t, await setUp(database, database))
  const owners = `select distinct tableowner from pg_tables where schemaname = 'public'`
  t.strictSame(await query(database, owners), [{ tableowner: 'owner' }])
})
