/** Migrations against a real database; test/plants/fields.test.ts has the table that they make. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { until } from '../../dev/until.ts'
import { migrate } from '../../src/database/migrate.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { createDatabase, query } from '../support/database.ts'

const migrations = readdirSync(join(import.meta.dirname, '../../migrations'))
  .map((file) => file.replace('.sql', ''))
  .sort()
const tables = `select table_name from information_schema.tables where table_name = 'plants'`

t.test(
  'up makes the table, again changes nothing, down takes back one migration after the other',
  async (t) => {
    const url = await createDatabase(t, { migrated: false })
    const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
    t.strictSame(await migrate(config, 'up'), migrations)
    t.strictSame(await migrate(config, 'up'), [])
    t.strictSame(await query(url, tables), [{ table_name: 'plants' }])
    for (const name of migrations.toReversed()) t.strictSame(await migrate(config, 'down'), [name])
    t.strictSame(await query(url, tables), [])
  }
)

t.test('replicas that migrate at once wait for one another, and each migration is done once', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
  const done = await Promise.all(Array.from({ length: 4 }, () => migrate(config, 'up')))
  t.strictSame(done.flat().sort(), migrations)
})

t.test('a migration that waits longer than its limit is a start-up fault', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const other = new pg.Client(url)
  await other.connect()
  t.teardown(() => other.end())
  await other.query('select pg_advisory_lock(7241865325823964)')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 4_000 }
  await t.rejects(
    migrate(config, 'up'),
    new StartupFault(['another migration or transaction on the table holds a lock for too long'])
  )
})

t.test(
  'a migration that waits for the table lets creates pass meanwhile, and ends with the table',
  async (t) => {
    const url = await createDatabase(t)
    const [holder, creator] = [new pg.Client(url), new pg.Client(url)]
    for (const client of [holder, creator]) {
      await client.connect()
      t.teardown(() => client.end())
    }
    await holder.query('begin; lock table plants in access share mode')
    const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 120_000 }
    const migration = migrate(config, 'down')
    const waiting = `select 1 from pg_locks where not granted and relation = 'plants'::regclass`
    // Twice: it goes on trying.
    for (const id of [1, 2]) {
      await until('the migration waits', async () => (await query(url, waiting)).length === 1)
      await creator.query(`set lock_timeout = '60s'`)
      await creator.query(`insert into plants (id, name, write_id) values (${id}, 'n', gen_random_uuid())`)
    }
    await holder.query('commit')
    t.strictSame(await migration, migrations.slice(-1))
    const done = await query(url, 'select name from migrations order by name')
    t.strictSame(
      done.map(({ name }) => name),
      migrations.slice(0, -1)
    )
  }
)

t.test('a migration that does not get the table within its limit is a start-up fault', async (t) => {
  const url = await createDatabase(t)
  const holder = new pg.Client(url)
  await holder.connect()
  t.teardown(() => holder.end())
  await holder.query('begin; lock table plants in access share mode')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 3_000 }
  await t.rejects(
    migrate(config, 'down'),
    new StartupFault(['another migration or transaction on the table holds a lock for too long'])
  )
})

t.test('any other error of a migration is passed on', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  await query(url, 'create table plants (id bigint)')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 5_000 }
  await t.rejects(migrate(config, 'up'), { code: '42P07' })
})
