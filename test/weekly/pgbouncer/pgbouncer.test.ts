/** Behind PgBouncer: one that loses prepared statements is noticed at the start and when the URL changes. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { createDatabase, openSession, query } from '../../support/postgres/database.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { migrateFile, root, run, serverFile } from '../../support/process.ts'
import { success } from '../../support/responses.ts'
import { startService, token } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const migrations = readdirSync(join(root, 'migrations')).length
/** Before 1.21, PgBouncer keeps no prepared statement, and does not know the setting. */
const [, minor] =
  /PgBouncer 1\.(\d+)/.exec(String(spawnSync('pgbouncer', ['--version']).stdout)) ?? []
const keepsStatements = Number(minor) >= 21

/** Starts PgBouncer with these settings in front of the database; ends it at teardown. Returns the URL that leads through it. */
async function startPgBouncer(
  t: Test,
  databaseUrl: string,
  settings: Record<string, string | number>
) {
  const { hostname, port, username, password } = new URL(databaseUrl)
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await chmod(directory, 0o755)
  const own = await freePort()
  const listen = {
    listen_addr: '127.0.0.1',
    listen_port: own,
    unix_socket_dir: '',
    auth_type: 'any'
  }
  const lines = Object.entries({ ...listen, ...settings }).map(
    ([name, value]) => `${name} = ${value}`
  )
  const target = `* = host=${hostname} port=${port} user=${username} password=${password}`
  await writeFile(
    join(directory, 'ini'),
    ['[databases]', target, '[pgbouncer]', ...lines, ''].join('\n')
  )
  const user = process.getuid?.() === 0 ? ['--user=nobody'] : []
  const child = spawn('pgbouncer', [...user, join(directory, 'ini')], {
    stdio: ['ignore', 'ignore', 'pipe']
  })
  t.teardown(async () => {
    if (child.exitCode !== null || !child.kill('SIGTERM')) return
    await once(child, 'exit')
  })
  for await (const line of createInterface({ input: child.stderr }))
    if (line.includes('process up')) break
  child.stderr.resume()
  const url = new URL(databaseUrl)
  url.port = String(own)
  return url.href
}

const missing =
  'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'
const losing = { pool_mode: 'transaction', ...(keepsStatements && { max_prepared_statements: 0 }) }

for (const turn of [0, 1])
  t.test(
    `transaction mode without prepared statements is refused, server_round_robin=${turn}`,
    async (t) => {
      const settings = { ...losing, server_round_robin: turn }
      const DATABASE_URL = await startPgBouncer(t, await createDatabase(t), settings)
      const env = {
        DATABASE_URL,
        AUTH_TOKENS: `tester:${token}`,
        PORT: '0',
        STARTUP_TIMEOUT_MS: '3000'
      }
      for (const _ of ['first', 'again']) {
        const { code, stderr } = await run(t, serverFile, env)
        t.equal(code, 1)
        t.match(stderr, missing)
      }
    }
  )

t.test('session mode serves', async (t) => {
  const DATABASE_URL = await startPgBouncer(t, await createDatabase(t), { pool_mode: 'session' })
  const service = await startService(t, { DATABASE_URL })
  t.strictSame(await service.post({ id: 1, name: 'n' }), success({ name: 'n' }))
})

t.test('a URL that leads to such a pooler is not used', async (t) => {
  const databaseUrl = await createDatabase(t)
  const path = join(t.testdir({ url: databaseUrl }), 'url')
  const service = await startService(t, { DATABASE_URL: '', DATABASE_URL_FILE: path })
  await writeFile(path, await startPgBouncer(t, databaseUrl, losing))
  await until('it is tried', () =>
    service.log().some((line) => JSON.stringify(line).includes(missing))
  )
  for (let id = 1; id <= 20; id++)
    t.strictSame(await service.post({ id, name: 'n' }), success({ name: 'n' }))
})

t.test(
  'migrations run through a pooler that moves sessions, and leave nothing behind in them',
  async (t) => {
    for (const turn of [0, 1]) {
      const databaseUrl = await createDatabase(t, { migrated: false })
      const settings = { ...losing, server_round_robin: turn }
      const DATABASE_URL = await startPgBouncer(t, databaseUrl, settings)
      // The pooler gives its sessions to others, too, so that each transaction of the migrations may get another.
      const crowd = await Promise.all(
        Array.from({ length: 6 }, () => openSession(t, DATABASE_URL, 'select 1'))
      )
      let isOver = false
      const queries = crowd.map(async (client) => {
        while (!isOver) await client.query('select pg_sleep(0.001)')
      })
      const both = await Promise.all([0, 1].map(() => run(t, migrateFile, { DATABASE_URL })))
      isOver = true
      await Promise.all(queries)
      t.strictSame(
        both.map(({ code }) => code),
        [0, 0]
      )
      t.equal((await query(databaseUrl, 'select from migrations')).length, migrations)
      t.strictSame(await query(databaseUrl, `select from pg_locks where locktype = 'advisory'`), [])
      for (const client of crowd)
        t.strictSame((await client.query('show lock_timeout')).rows, [{ lock_timeout: '0' }])
      const direct = await run(t, migrateFile, { DATABASE_URL: databaseUrl })
      t.match(direct, { code: 0, stdout: 'nothing to migrate\n' })
    }
  }
)
