/** Migrations against a real database; test/plants/fields.test.ts has the table that they make. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createDatabase, createRole, query } from '../../harness/postgres/database.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { migrate } from '../../src/commands/migrations.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'

const migrations = readdirSync(join(import.meta.dirname, '../../migrations'))
  .map((file) => file.replace('.sql', ''))
  .sort()
const tables = `select table_name from information_schema.tables where table_name = 'plants'`

t.test('up makes the table and then changes nothing, down reverts one migration at a time', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
  t.strictSame(await migrate(config, 'up'), migrations)
  t.strictSame(await migrate(config, 'up'), [])
  t.strictSame(await query(url, tables), [{ table_name: 'plants' }])
  for (const name of migrations.toReversed()) t.strictSame(await migrate(config, 'down'), [name])
  t.strictSame(await query(url, tables), [])
})

t.test('replicas that migrate at once wait for one another, and each migration is done once', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
  const done = await Promise.all(Array.from({ length: 4 }, () => migrate(config, 'up')))
  t.strictSame(done.flat().sort(), migrations)
})

/** Opens a connection, which ends with the test, and runs a statement over it. */
async function openWith(t: Test, url: string, sql: string) {
  const client = new pg.Client(url)
  await client.connect()
  t.teardown(() => client.end())
  await client.query(sql)
  return client
}

const lockTable = 'begin; lock table plants in access share mode'
const locks: [what: string, migrated: boolean, sql: string, direction: 'up' | 'down', limitMs: number][] = [
  ['another migration', false, 'select pg_advisory_lock(7241865325823964)', 'up', 4_000],
  ['the table', true, lockTable, 'down', 3_000]
]
for (const [what, migrated, sql, direction, startupTimeoutMs] of locks) {
  t.test(`a migration that waits for ${what} longer than its limit is a start-up fault`, async (t) => {
    const url = await createDatabase(t, { migrated })
    await openWith(t, url, sql)
    await t.rejects(
      migrate({ database: parseDatabaseUrl(url), startupTimeoutMs }, direction),
      new StartupFault(['another migration or transaction on the table holds a lock for too long'])
    )
  })
}

t.test('a migration that waits for the table lets creates pass, and ends with the table', async (t) => {
  const url = await createDatabase(t)
  const holder = await openWith(t, url, lockTable)
  const creator = await openWith(t, url, `set lock_timeout = '60s'`)
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 120_000 }
  const migration = migrate(config, 'down')
  const waiting = `select 1 from pg_locks where not granted and relation = 'plants'::regclass`
  // Twice: it keeps trying.
  for (const id of [1, 2]) {
    await until('the migration waits', async () => (await query(url, waiting)).length === 1)
    await creator.query(`insert into plants (id, name, write_id) values (${id}, 'n', gen_random_uuid())`)
  }
  await holder.query('commit')
  t.strictSame(await migration, migrations.slice(-1))
  const done = await query(url, 'select name from migrations order by name')
  const names = done.map(({ name }) => name)
  t.strictSame(names, migrations.slice(0, -1))
})

t.test('a role that lacks a right is told the grant, or to be the owner', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const role = await createRole(t, url, 'thyme')
  const own = new URL(url)
  Object.assign(own, { username: role.name, password: 'thyme' })
  const migrateBy = (direction: 'up' | 'down') =>
    migrate({ database: parseDatabaseUrl(own.href), startupTimeoutMs: scaled(30_000) }, direction)
  const grant = `grant usage, create on schema public to ${role.name};`
  const fault = `the role lacks rights; run: ${grant} or run the migrations as the owner of the tables.`
  await t.rejects(migrateBy('up'), new StartupFault([fault]))
  await query(url, grant)
  t.strictSame(await migrateBy('up'), migrations)
  await query(url, 'alter table plants owner to current_user')
  const other = 'must be owner of table plants: run the migrations as the owner of the tables'
  await t.rejects(migrateBy('down'), new StartupFault([other]))
  await query(url, 'alter table migrations owner to current_user')
  const unseen = `the role lacks rights; run: grant select, insert, delete on migrations to ${role.name}; or run the migrations as the owner of the tables.`
  await t.rejects(migrateBy('up'), new StartupFault([unseen]))
})

t.test('any other error of a migration is passed on', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  await query(url, 'create table plants (id bigint)')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 5_000 }
  await t.rejects(migrate(config, 'up'), { code: '42P07' })
})
