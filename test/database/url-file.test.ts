/** A database URL that changes in its file, under load: creates continue, and all connections end up with the file's URL. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { assertHistory } from '../../harness/histories/assert-rows.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { listen } from '../../harness/http/listen.ts'
import { createDatabase, createRole, query } from '../../harness/postgres/database.ts'
import { startProcess } from '../../harness/service/process.ts'
import { post, startService, success, token } from '../../harness/service/service.ts'
import { hasLength, is, until } from '../../harness/time/until.ts'

/** Creates that succeed before and after each change. */
const creates = 100
const clients = 8

/** A file with the URL of a new role of a new database, and the service that follows it, under load until teardown. */
async function startUnderLoad(t: Test) {
  const databaseUrl = await createDatabase(t)
  // After the teardown of the service, which ends the role's connections.
  const role = await createRole(t, databaseUrl, 'first')
  const path = join(t.testdir({}), 'database-url')
  const write = async (user: string, password: string) => {
    const url = new URL(databaseUrl)
    Object.assign(url, { username: user, password })
    await writeFile(path, `${url.href}\n`)
  }
  await write(role.name, 'first')
  const service = await startService(t, { DATABASE_URL: '', DATABASE_URL_FILE: path })
  const load = startRivals({ urls: [service.url], token, clients, pauseMs: 100 })
  t.teardown(() => load.stop())
  await load.succeed(creates)
  const find = (what: string) =>
    query(
      databaseUrl,
      `select ${what} from pg_stat_activity where application_name = 'plant-store' and datname = current_database()`
    )
  const logged = (msg: string) => service.log().filter((line) => line.msg === msg)
  return {
    databaseUrl,
    role,
    path,
    write,
    service,
    load,
    logged,
    pids: async () => (await find('pid')).map(({ pid }) => pid),
    users: async () => new Set((await find('usename')).map(({ usename }) => usename)),
    terminate: () => find('pg_terminate_backend(pid)'),
    isReplaced: (times = 1) =>
      until(
        'the connections are replaced',
        () => logged('the connections are replaced by those of DATABASE_URL_FILE').length,
        is(times)
      ),
    /** Asserts that no client has seen an error, and that the log has no secret. */
    async end(t: Test) {
      await assertHistory(t, databaseUrl, await load.stop())
      t.notMatch(service.logText(), /first|second/)
    }
  }
}

type Scene = Awaited<ReturnType<typeof startUnderLoad>>

/** Returns when none of these connections is there any more. */
const areGone = ({ pids }: Scene, before: number[]) =>
  until('the connections from before are gone', pids, (now) => !now.some((pid) => before.includes(pid)))

t.test('a password that changes in the file first is used once PostgreSQL has it', async (t) => {
  const scene = await startUnderLoad(t)
  const { role, write, load, logged, service } = scene
  const before = await scene.pids()
  await write(role.name, 'second')
  await until(
    'the file is tried',
    () => logged('DATABASE_URL_FILE has a URL that does not work yet'),
    ({ length }) => length > 0
  )
  await load.succeed(creates)
  t.match(await service.metrics(), /^plant_store_database_url_file_error 1$/m)
  const missings = logged('DATABASE_URL_FILE has a URL that does not work yet').map(({ missing }) => missing)
  t.strictSame(
    missings,
    [`the database cannot be reached: password authentication failed for user "${role.name}"`],
    'it is logged once'
  )
  await role.setPassword('second')
  await scene.isReplaced()
  await load.succeed(creates)
  await areGone(scene, before)
  t.match(await service.metrics(), /^plant_store_database_url_file_error 0$/m)
  t.match(await service.metrics(), /^plant_store_pool_resets_total 0$/m)
  await scene.end(t)
})

t.test('a password that changes in PostgreSQL first is waited for, as an outage is', async (t) => {
  const scene = await startUnderLoad(t)
  const { role, write, load, service } = scene
  await role.setPassword('second')
  await load.succeed(creates)
  t.pass('open connections continue')
  await scene.terminate()
  await until('no connection is left', scene.pids, hasLength(0))
  await until('an attempt fails', service.metrics, (page) =>
    /^plant_store_batch_duration_seconds_count\{outcome="database"\} [1-9]/m.test(page)
  )
  await write(role.name, 'second')
  await scene.isReplaced()
  await load.succeed(creates)
  await scene.end(t)
})

t.test('after a change of the user, no connection of the former one is left', async (t) => {
  const scene = await startUnderLoad(t)
  const other = await createRole(t, scene.databaseUrl, 'second')
  t.strictSame(await scene.users(), new Set([scene.role.name]))
  await scene.write(other.name, 'second')
  await scene.isReplaced()
  await scene.load.succeed(creates)
  await until('one user is left', scene.users, (users) => users.size === 1 && users.has(other.name))
  await scene.end(t)
})

t.test('a broken file changes nothing, and the next good one is used', async (t) => {
  const scene = await startUnderLoad(t)
  const { path, service, load, write, role } = scene
  await writeFile(path, 'mysql://first:second@127.0.0.1/plants')
  await service.app.reloadDatabaseUrl()
  await load.succeed(creates)
  t.match(scene.logged('DATABASE_URL_FILE is broken; keeping the earlier text'), [
    { level: 50, faults: ['must be a URL such as postgres://user:password@host:5432/database'] }
  ])
  t.match(await service.metrics(), /^plant_store_database_url_file_error 1$/m)
  /** Makes the file name a server that is away, and waits for some tries. Returns their number. */
  const writeAway = async (times: number) => {
    let tries = 0
    const away = await listen(t, (socket) => {
      tries++
      socket.destroy()
    })
    await writeFile(path, away)
    await service.app.reloadDatabaseUrl()
    await until(`it is tried ${times} times`, () => tries >= times)
    return () => tries
  }
  // One that does not work is given up for the next one.
  const triesOfFirst = await writeAway(2)
  await write(role.name, 'first')
  await service.app.reloadDatabaseUrl()
  await scene.isReplaced()
  const before = triesOfFirst()
  // All are tried equally often.
  await writeAway(4)
  t.ok(triesOfFirst() <= before + 1, 'only a try under way was finished')
  await write(role.name, 'first')
  await service.app.reloadDatabaseUrl()
  await scene.isReplaced(2)
  t.match(await service.metrics(), /^plant_store_database_url_file_error 0$/m)
  await load.succeed(creates)
  await scene.end(t)
})

t.test('a database that fails a check is not used before it passes', async (t) => {
  const scene = await startUnderLoad(t)
  const next = await createDatabase(t)
  await query(next, 'alter table plants set unlogged')
  await writeFile(scene.path, next)
  await until(
    'what is missing is logged',
    () => scene.logged('DATABASE_URL_FILE has a URL that does not work yet'),
    ([line]) => line?.missing === 'table plants loses plants in a crash: alter table plants set logged'
  )
  await scene.load.succeed(creates)
  await scene.end(t)
  t.strictSame(await query(next, 'select from plants'), [])
  await query(next, 'alter table plants set logged')
  await scene.isReplaced()
  t.strictSame(await post(`${scene.service.url}/plants`, { id: -1, name: 'n' }), success({ name: 'n' }))
  t.strictSame(await query(next, 'select id from plants'), [{ id: '-1' }])
})

t.test('a service that waits for its database follows the file, too; SIGHUP reads it at once', async (t) => {
  const databaseUrl = await createDatabase(t)
  const path = join(t.testdir({}), 'database-url')
  const away = await listen(t, (socket) => {
    socket.destroy()
    void writeFile(path, databaseUrl)
  })
  await writeFile(path, away)
  const { url, ...service } = await startProcess(t, { DATABASE_URL_FILE: path, SHUTDOWN_DELAY_MS: '0' })
  t.strictSame(await post(`${url}/plants`, { id: 1, name: 'n' }), success({ name: 'n' }))
  service.kill('SIGHUP')
  await service.output(/("DATABASE_URL_FILE was read".*){2}/s)
  service.kill('SIGTERM')
  t.equal((await service.ended).code, 0)
})
