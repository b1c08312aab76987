/** Migrations run once under a lock, or change nothing; each release runs on the tables of the next; roles.sql is enough. */
import { hash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t, { type Test } from 'tap'
import { createDatabase, openSession, query, serverUrl } from '../support/postgres/database.ts'
import { migrateFile, root, run } from '../support/process.ts'
import { refuses } from '../support/refusal.ts'
import { failure, replay, success } from '../support/responses.ts'
import { keyed, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const names = readdirSync(join(root, 'migrations'))
  .map((file) => file.replace('.sql', ''))
  .sort()
const migrate = (t: Test, env: Record<string, string>) =>
  run(t, migrateFile, { STARTUP_TIMEOUT_MS: '120000', ...env })
const done = { code: 0, stdout: `migrated: ${names.join(', ')}\n`, stderr: '' }
const nothing = { code: 0, stdout: 'nothing to migrate\n', stderr: '' }

/** Creates the table in a transaction that stays open: nobody else can create it until the session rolls back. */
const holdTable = (t: Test, url: string) =>
  openSession(t, url, 'begin; create table plants (id bigint)')
/** Whether the table is there, and how many migrations are noted. */
const look = async (url: string) => {
  const [{ plants, noted }] = await query(
    url,
    `select to_regclass('plants') is not null as plants, to_regclass('migrations') as noted`
  )
  return { plants, noted: noted === null ? 0 : (await query(url, 'select from migrations')).length }
}

t.jobs = 4

/** Whoever creates a table waits, without a lock, until the gate has a row. */
const addGate = `
  create table gate (is_open boolean);
  create function wait() returns event_trigger language plpgsql as $$
    begin while not exists (select from gate) loop perform pg_sleep(0.05); end loop; end $$;
  create event trigger wait on ddl_command_start when tag in ('CREATE TABLE') execute function wait()`

/** The migrations of releases, and their SHA-256. */
const released = {
  '1763700000000_plants.sql': 'ea1d2068aa3f520df58e38ea97b9bc1ce20712d7a2cb442ba7737287512e4858'
}

t.test('a released migration never changes: it runs on new databases only', async (t) => {
  for (const [file, digest] of Object.entries(released))
    t.equal(hash('sha256', readFileSync(join(root, 'migrations', file))), digest, file)
})

t.test(
  'two at once on an empty database: both end well, and each migration runs once',
  async (t) => {
    const url = await createDatabase(t, { migrated: false })
    await query(url, addGate)
    const both = Promise.all([migrate(t, { DATABASE_URL: url }), migrate(t, { DATABASE_URL: url })])
    const seen = new Set<number>()
    const waiting = `
    select pid from pg_stat_activity
    where datname = current_database() and (wait_event_type = 'Lock' or wait_event = 'PgSleep')`
    await until('one has waited at the gate, the other there or for a lock', async () => {
      for (const { pid } of await query(url, waiting)) seen.add(pid)
      return seen.size >= 2
    })
    await query(url, 'insert into gate values (true)')
    const ends = await both
    const text = ends.map(({ stdout }) => stdout).join('')
    t.strictSame(
      ends.map(({ code, stderr }) => ({ code, stderr })),
      [0, 0].map((code) => ({ code, stderr: '' }))
    )
    for (const name of names) t.equal(text.split(name).length, 2, `${name} ran once`)
    t.strictSame(await look(url), { plants: true, noted: names.length })
    t.strictSame(await migrate(t, { DATABASE_URL: url }), nothing, 'a further run says so')
  }
)

t.test(
  'a table that stays locked ends a migration in one line, and nothing is changed',
  async (t) => {
    const url = await createDatabase(t, { migrated: false })
    const holder = await holdTable(t, url)
    const env = { DATABASE_URL: url, STARTUP_TIMEOUT_MS: '8000' }
    await refuses(t, migrateFile, env, [
      'another migration or transaction on the table holds a lock for too long'
    ])
    await holder.query('rollback')
    t.strictSame(await look(url), { plants: false, noted: 0 })
  }
)

t.test('a table of somebody else ends a migration in one line, and is left alone', async (t) => {
  const url = await createDatabase(t, { migrated: false })
  await query(url, 'create table plants (shape text)')
  await refuses(t, migrateFile, { DATABASE_URL: url }, /plants.*already exists/)
  t.strictSame(await look(url), { plants: true, noted: 0 })
  t.strictSame(
    await query(
      url,
      `select attname from pg_attribute where attrelid = 'plants'::regclass and attnum > 0`
    ),
    [{ attname: 'shape' }]
  )
})

/**
 * Each fault of the second of three further migrations, and what the line says of it. The third is never begun. No field of a
 * plant begins with `next`.
 */
const badMigrations: [title: string, sql: string, says: string][] = [
  [
    'an unknown type',
    'alter table plants add next_depth integre;',
    'type "integre" does not exist'
  ],
  ['no SQL', 'alter tabel plants add next_depth integer;', 'syntax error at or near "tabel"'],
  ['several lines', `do $$ begin raise exception E'no\\nroom'; end $$;`, 'no'],
  [
    'a column twice',
    'alter table plants add name text;',
    'column "name" of relation "plants" already exists'
  ]
]

t.test(
  'a migration that fails is named in one line, and nothing of the others is kept',
  async (t) => {
    const copy = t.testdir({})
    for (const part of ['src', 'migrations', 'package.json'])
      cpSync(join(root, part), join(copy, part), { recursive: true })
    const add = (name: string, sql: string) =>
      writeFileSync(join(copy, 'migrations', `${name}.sql`), sql)
    const file = relative(root, join(copy, migrateFile))
    const bad = '1900000000001_depth'
    add('1900000000000_height', 'alter table plants add next_height integer;')
    add('1900000000002_width', 'alter table plants add next_width integer;')
    for (const [title, sql, says] of badMigrations) {
      const url = await createDatabase(t)
      add(bad, sql)
      const env = { DATABASE_URL: url, STARTUP_TIMEOUT_MS: '120000' }
      t.equal(await refuses(t, file, env, [`the migration ${bad} has failed: ${says}`]), '', title)
      const columns = `select attname from pg_attribute where attrelid = 'plants'::regclass and attname like 'next%'`
      t.strictSame(await query(url, columns), [])
      t.strictSame(await look(url), { plants: true, noted: names.length })
    }
  }
)

t.test(
  'this release runs on the table of the one after, which has one more nullable column',
  async (t) => {
    const first = await startService(t)
    const plant = { id: 1, name: 'n', tag: 't' }
    t.strictSame(await first.post(plant, keyed('k')), success({ name: 'n', tag: 't' }))
    await first.rows('alter table plants add next_region text')
    const second = await startService(t, { DATABASE_URL: first.databaseUrl })
    await first.rows(
      `insert into plants (id, name, write_id, next_region) values (2, 'n', gen_random_uuid(), 'of the next')`
    )
    for (const [index, { post }] of [first, second].entries()) {
      t.strictSame(
        await post(plant, keyed('k')),
        replay({ name: 'n', tag: 't' }),
        'a row of before'
      )
      t.strictSame(
        await post({ id: 2, name: 'n' }),
        failure('DuplicatePlant'),
        'a row of the release after'
      )
      const fresh = { id: 10 + index, name: 'n' }
      t.strictSame(await post(fresh, keyed('k')), success({ name: 'n' }))
      t.strictSame(await post(fresh, keyed('k')), replay({ name: 'n' }))
    }
    const rows = await first.rows('select id::int, name, tag, next_region from plants order by id')
    t.strictSame(
      rows.map((row) => Object.values(row)),
      [
        [1, 'n', 't', null],
        [2, 'n', null, 'of the next'],
        [10, 'n', null, null],
        [11, 'n', null, null]
      ]
    )
  }
)

t.test(
  'roles.sql gives both roles exactly what they need, before and after the migrations',
  async (t) => {
    const [owner, service] = ['plants_owner', 'plants_service']
    for (const role of [service, owner])
      t.teardown(() => query(serverUrl(), `drop role if exists ${role}`))
    const database = await createDatabase(t, { migrated: false })
    const sql = readFileSync(join(root, 'ops/postgresql/roles.sql'), 'utf8')
    const urlOfRole = (role: string) => {
      const url = new URL(database)
      Object.assign(url, { username: role, password: 'thyme' })
      return url.href
    }
    await query(database, sql)
    for (const role of [owner, service])
      await query(database, `alter role ${role} password 'thyme'`)
    const urls = { MIGRATION_DATABASE_URL: urlOfRole(owner), DATABASE_URL: urlOfRole(service) }
    const forbidden = [
      'update plants set name = name',
      'delete from plants',
      'truncate plants',
      'drop table plants',
      'alter table plants add region text',
      'select from migrations',
      'create table seeds ()',
      'create temporary table seeds ()'
    ]
    const onlyAdds = async () => {
      for (const statement of forbidden)
        await t.rejects(query(urls.DATABASE_URL, statement), { code: '42501' }, statement)
    }
    t.strictSame(await migrate(t, urls), done, 'MIGRATION_DATABASE_URL comes before DATABASE_URL')
    await onlyAdds()
    await query(database, sql)
    await onlyAdds()

    const { post } = await startService(t, urls)
    t.strictSame(await post({ id: 1, name: 'n' }, keyed('k')), success({ name: 'n' }))
    t.strictSame(await post({ id: 1, name: 'n' }, keyed('k')), replay({ name: 'n' }))
    t.strictSame(await post({ id: 1, name: 'n' }), failure('DuplicatePlant'))
  }
)
