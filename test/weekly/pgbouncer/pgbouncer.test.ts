/** Behind PgBouncer: one that loses prepared statements is noticed at the start and when the URL changes. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { createDatabase } from '../../support/postgres/database.ts'
import { freePort } from '../../support/postgres/embedded-postgres.ts'
import { startService, success } from '../../support/service.ts'
import { until } from '../../support/until.ts'
import { parseDatabaseUrl } from '../../../src/database/url.ts'
import { waitForDatabase } from '../../../src/database/wait-for-database.ts'
import { StartupFault } from '../../../src/failures/startup-fault.ts'
import { databaseChecks } from '../../../src/plants/statements.ts'

const [, major = 0, minor = 0] =
  /PgBouncer (\d+)\.(\d+)/.exec(String(spawnSync('pgbouncer', ['--version']).stdout))?.map(Number) ?? []
/** Before 1.21, it keeps no prepared statement, and does not know the setting. */
const keepsStatements = major > 1 || minor >= 21
t.comment(`PgBouncer ${major}.${minor}`)

/** Starts PgBouncer with these settings in front of the database; ends it at teardown. Returns the URL that leads through it. */
async function startPgBouncer(t: Test, databaseUrl: string, settings: Record<string, string | number>) {
  const { hostname, port, username, password } = new URL(databaseUrl)
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  await chmod(directory, 0o755)
  const own = await freePort()
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: own,
    unix_socket_dir: '',
    auth_type: 'any',
    ...settings
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const target = `* = host=${hostname} port=${port} user=${username} password=${password}`
  await writeFile(join(directory, 'ini'), ['[databases]', target, '[pgbouncer]', ...lines, ''].join('\n'))
  const user = process.getuid?.() === 0 ? ['--user=nobody'] : []
  const child = spawn('pgbouncer', [...user, join(directory, 'ini')], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.teardown(async () => {
    if (child.exitCode !== null || !child.kill('SIGTERM')) return
    await once(child, 'exit')
  })
  for await (const line of createInterface({ input: child.stderr })) if (line.includes('process up')) break
  child.stderr.resume()
  const url = new URL(databaseUrl)
  url.port = String(own)
  return url.href
}

const wait = (url: string) => waitForDatabase(() => parseDatabaseUrl(url), 3_000, databaseChecks)
const missing =
  'the pooler loses prepared statements: set max_prepared_statements above 0 in PgBouncer 1.21 or later, or pool_mode to session'

const without = { pool_mode: 'transaction', ...(keepsStatements && { max_prepared_statements: 0 }) }
for (const [what, settings] of Object.entries({
  'by default': without,
  'with one server': { ...without, default_pool_size: 1 },
  'with servers in turn': { ...without, server_round_robin: 1 }
}))
  t.test(`transaction mode without prepared statements is refused ${what}, also again`, async (t) => {
    const url = await startPgBouncer(t, await createDatabase(t), settings)
    for (const _ of [1, 2]) await t.rejects(wait(url), new StartupFault([missing]))
  })

const passing: Record<string, Record<string, string | number>> = {
  'session mode': { pool_mode: 'session' },
  'session mode with one server': { pool_mode: 'session', default_pool_size: 1 },
  ...(keepsStatements && {
    'transaction mode with prepared statements': { pool_mode: 'transaction', max_prepared_statements: 100 },
    'the same with one server': {
      pool_mode: 'transaction',
      max_prepared_statements: 100,
      default_pool_size: 1
    }
  })
}
for (const [what, settings] of Object.entries(passing))
  t.test(`${what} passes`, async (t) => {
    const url = await startPgBouncer(t, await createDatabase(t), settings)
    t.equal(await wait(url), undefined)
  })

t.test('a URL that leads to such a pooler is not used', async (t) => {
  const databaseUrl = await createDatabase(t)
  const path = join(t.testdir({ url: databaseUrl }), 'url')
  const service = await startService(t, { DATABASE_URL: '', DATABASE_URL_FILE: path })
  await writeFile(path, await startPgBouncer(t, databaseUrl, without))
  await service.app.reloadDatabaseUrl()
  await until(
    'it is tried',
    () => service.log(),
    (lines) => lines.some((line) => line.missing === missing)
  )
  for (let id = 1; id <= 20; id++) t.strictSame(await service.post({ id, name: 'n' }), success({ name: 'n' }))
})
