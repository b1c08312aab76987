/** Migrations against a real database. */
import pg from 'pg'
import t from 'tap'
import { migrate } from '../../src/database/migrate.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { StartupFault } from '../../src/failures/startup-fault.ts'
import { createDatabase, query } from '../support/database.ts'

const columns = `
  select column_name, data_type, is_nullable, column_default
  from information_schema.columns where table_name = 'plants' order by ordinal_position`

t.test('up makes the table, again changes nothing, down takes it back', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
  t.strictSame(await migrate(config, 'up'), ['1763700000000_plants'])
  t.strictSame(await migrate(config, 'up'), [])
  t.strictSame(
    (await query(url, columns)).map((row) => Object.values(row)),
    [
      ['id', 'bigint', 'NO', null],
      ['name', 'text', 'NO', null],
      ['tag', 'text', 'YES', null],
      ['write_id', 'uuid', 'NO', null],
      ['created_at', 'timestamp with time zone', 'NO', 'now()']
    ]
  )
  const indexes = await query(url, `select indexdef from pg_indexes where tablename = 'plants'`)
  t.strictSame(indexes, [{ indexdef: 'CREATE UNIQUE INDEX plants_pkey ON public.plants USING btree (id)' }])
  t.strictSame(await migrate(config, 'down'), ['1763700000000_plants'])
  t.strictSame(await query(url, columns), [])
})

t.test('replicas that migrate at once wait for one another, and one does the work', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000 }
  const done = await Promise.all(Array.from({ length: 4 }, () => migrate(config, 'up')))
  t.strictSame(done.flat(), ['1763700000000_plants'])
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
    new StartupFault(['another migration, or a transaction on the table, holds a lock for too long'])
  )
})

t.test('without its lock a migration neither takes nor waits for one', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  const other = new pg.Client(url)
  await other.connect()
  t.teardown(() => other.end())
  await other.query('select pg_advisory_lock(7241865325823964)')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 30_000, lock: false }
  t.strictSame(await migrate(config, 'up'), ['1763700000000_plants'])
  t.strictSame(await migrate(config, 'down'), ['1763700000000_plants'])
})

t.test('any other error of a migration is passed on', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  await query(url, 'create table plants (id bigint)')
  const config = { database: parseDatabaseUrl(url), startupTimeoutMs: 5_000 }
  await t.rejects(migrate(config, 'up'), { code: '42P07' })
})
