/**
 * The roles that an operator makes by ops/postgresql/roles.sql have the rights that they need, and no others; those of the
 * Compose stacks (ops/compose/roles.sh) get the passwords that setup has made, whatever ends it.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDatabase, openSession, query, untilBlocked } from '../../harness/postgres/database.ts'
import { copyScript, linkFile, makeRoot, runScript } from '../../harness/scripts/scripts.ts'
import { failure, headers, replay, startService, success } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { hasLength, until } from '../../harness/time/until.ts'
import { migrate } from '../../src/commands/migrations.ts'
import { parseDatabaseUrl } from '../../src/database/url.ts'
import { waitForDatabase } from '../../src/database/wait-for-database.ts'
import { databaseChecks } from '../../src/plants/statements.ts'

const sql = readFileSync(join(import.meta.dirname, '../../ops/postgresql/roles.sql'), 'utf8')
const server = process.env.TEST_DATABASE_URL as string
const patienceMs = scaled(30_000)
const [owner, service] = ['plants_owner', 'plants_service']

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
  for (const role of [owner, service]) await query(operator, `alter role ${role} password 'thyme'`)
  const migration = { database: parseDatabaseUrl(urlOf(owner, database)), startupTimeoutMs: patienceMs }
  await migrate(migration, 'up')
  await query(operator, sql)
  return urlOf(service, database)
}

async function assertRights(t: Test, url: string) {
  await waitForDatabase(() => parseDatabaseUrl(url), patienceMs, databaseChecks)
  const { post } = await startService(t, { DATABASE_URL: url })
  const keyed = { headers: { ...headers, 'idempotency-key': 'first' } }
  t.strictSame(await post({ id: 1, name: 'n' }, keyed), success({ name: 'n' }))
  t.strictSame(await post({ id: 1, name: 'n' }, keyed), replay({ name: 'n' }))
  t.strictSame(await post({ id: 1, name: 'n' }), failure(409, 'a plant with this id already exists'))
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
  t.teardown(() => drop(service, owner))
  const database = await createDatabase(t, { migrated: false })
  await assertRights(t, await setUp(database, database))
})

t.test("made by the database's owner, who is not a superuser", async (t) => {
  t.teardown(() => drop(service, owner, 'operator'))
  const database = await createDatabase(t, { migrated: false })
  await query(server, `create role operator login createrole password 'thyme'`)
  await query(server, `alter database ${new URL(database).pathname.slice(1)} owner to operator`)
  await assertRights(t, await setUp(urlOf('operator', database), database))
})

t.test('a table that the superuser had migrated gets its owner', async (t) => {
  t.teardown(() => drop(service, owner))
  const database = await createDatabase(t)
  await assertRights(t, await setUp(database, database))
  const owners = `select distinct tableowner from pg_tables where schemaname = 'public'`
  t.strictSame(await query(database, owners), [{ tableowner: owner }])
})

t.test('a role of another application is not taken over', async (t) => {
  t.teardown(() => drop(service, owner))
  const database = await createDatabase(t, { migrated: false })
  await query(server, `create role ${service} login`)
  const refusal = await query(database, sql).catch((error) => error)
  t.equal(refusal.message, 'the role plants_service exists already, and was not made by this file')
  t.strictSame(await query(server, `select from pg_roles where rolname = '${owner}'`), [], 'nothing is made')
  const [, command = ''] = /run this first: (comment on role .*)$/.exec(refusal.hint) ?? []
  await query(database, command)
  await assertRights(t, await setUp(database, database))
})

const skip = spawnSync('psql', ['--version']).status !== 0 && 'psql is not on the PATH'

/** A stack's secrets and scripts beside this database; its roles have these names. */
async function openStack(t: Test, [owner, service]: [string, string]) {
  t.teardown(() => drop(service, owner, 'plants_exporter', 'superuser'))
  const database = await createDatabase(t, { migrated: false })
  const { hostname, port, host, pathname } = new URL(database)
  const name = pathname.slice(1)
  const readers = ['api', 'certificate', 'db', 'exporter', 'migrate', 'tokens'].map(
    (reader) => `secrets/${reader}`
  )
  const root = makeRoot(t, ['config', 'pages', 'run', 'ops/prometheus/web', ...readers])
  writeFileSync(join(root, 'ops/prometheus/web/runbook.html'), '')
  for (const script of ['setup', 'roles']) copyScript(root, `ops/compose/${script}.sh`)
  linkFile(root, 'config/postgresql/roles.sql', 'ops/postgresql/roles.sql')
  symlinkSync(join(root, 'secrets/db'), join(root, 'run/secrets'))
  const script = join(root, 'ops/compose/roles.sh')
  writeFileSync(script, readFileSync(script, 'utf8').replace('--dbname=plants', `--dbname=${name}`))

  const env = { OWNER_DATABASE: `${host}/${name}`, SERVICE_DATABASE: `${host}/${name}` }
  const operator = { PGHOST: hostname, PGPORT: port, PGPASSWORD: 'thyme', PGAPPNAME: 'plant-store' }
  await query(server, 'create role superuser superuser login')
  const stored = () =>
    query(
      server,
      `select rolname, rolpassword from pg_authid where rolname in ('${owner}', '${service}', 'superuser') order by 1`
    )
  const verifier = (role: string) => readFileSync(join(root, `secrets/db/${role}-verifier`), 'utf8').trimEnd()
  return {
    root,
    database,
    stored,
    setUp: async (...args: string[]) =>
      t.match(await runScript(root, ['ops/compose/setup.sh', ...args], { env }), { code: 0, stderr: '' }),
    admit: () => query(server, `alter role superuser password 'thyme'`),
    run: (started?: (kill: () => void) => void) =>
      runScript(root, ['ops/compose/roles.sh', 'superuser'], { env: operator, ...(started && { started }) }),
    async assertSet(what: string) {
      // Exactly what setup has made: the server, and its log, never had the password.
      t.strictSame(
        await stored(),
        [
          { rolname: owner, rolpassword: verifier(owner) },
          { rolname: service, rolpassword: verifier(service) },
          { rolname: 'superuser', rolpassword: null }
        ],
        what
      )
      for (const reader of ['api', 'migrate']) {
        const url = readFileSync(join(root, `secrets/${reader}/database-url`), 'utf8').trimEnd()
        t.strictSame(await query(url, 'select 1 as one'), [{ one: 1 }], `${what}: ${reader}`)
      }
      const password = readFileSync(join(root, 'secrets/exporter/password'), 'utf8').trimEnd()
      const exporter = (url: string) =>
        Object.assign(new URL(url), { username: 'plants_exporter', password }).href
      const rights = `select pg_has_role('pg_monitor', 'member') as monitors, rolsuper from pg_roles where rolname = current_user`
      t.strictSame(await query(exporter(server), rights), [{ monitors: true, rolsuper: false }], what)
      await t.rejects(query(exporter(database), 'select 1'), { code: '42501' }, 'it may not even connect')
    }
  }
}

t.test('the passwords of setup, set by roles.sh', { skip }, async (t) => {
  const { root, database, stored, setUp, admit, run, assertSet } = await openStack(t, [owner, service])
  const done = { code: 0, stdout: '', stderr: '' }

  /** Kills it while it waits for a session, which then rolls back. */
  const killAt = async (sql: string) => {
    const session = await openSession(t, database, `begin; ${sql}`)
    const { promise: kill, resolve } = Promise.withResolvers<() => void>()
    const killed = run(resolve)
    await untilBlocked(database)
    ;(await kill)()
    t.equal((await killed).code, null)
    await session.query('rollback')
    await until(
      'the server has noticed',
      () => query(database, `select from pg_stat_activity where usename = 'superuser'`),
      hasLength(0)
    )
  }

  await setUp()
  await admit()
  const before = await stored()
  await killAt(`create role ${service}`)
  t.strictSame(await stored(), before, 'neither role is there')
  // The first to end takes the superuser's password away: all are connected by then.
  const session = await openSession(t, database, `begin; select pg_advisory_xact_lock(hashtext('roles'))`)
  const all = Promise.all([run(), run(), run()])
  await untilBlocked(database, 3)
  await session.query('rollback')
  t.strictSame(await all, [done, done, done])
  await assertSet('three at once')

  await setUp('--rotate')
  await admit()
  const old = await stored()
  await killAt(`alter role ${service} connection limit 9`)
  t.strictSame(await stored(), old, 'no password has changed')
  t.strictSame(await run(), done)
  await assertSet('after a rotation')

  await admit()
  writeFileSync(join(root, `secrets/db/${service}-verifier`), '')
  t.match(await run(), {
    code: 1,
    stdout: '',
    stderr: /^roles: setup has made no password for plants_service\n$/
  })
  await setUp()
  t.strictSame(await run(), done)
  await assertSet('after it was lost')
})

t.test('a stack whose roles are called owner and service keeps them', { skip }, async (t) => {
  const { root, database, setUp, admit, run, assertSet } = await openStack(t, ['owner', 'service'])
  const url = (role: string) => `postgres://${role}:${'0'.repeat(64)}@db:5432/plants\n`
  writeFileSync(join(root, 'secrets/migrate/database-url'), url('owner'))
  writeFileSync(join(root, 'secrets/api/database-url'), url('service'))
  await query(database, 'create role owner login; create role service login')
  for (const args of [[], ['--rotate']]) {
    await setUp(...args)
    await admit()
    t.match(await run(), { code: 0, stdout: '', stderr: '' })
    await assertSet(`setup ${args}`)
  }
  t.strictSame(await query(database, `select tableowner from pg_tables where schemaname = 'public'`), [
    { tableowner: 'owner' }
  ])
  t.strictSame(await query(server, `select from pg_roles where rolname ~ '^plants_(owner|service)'`), [])
})
