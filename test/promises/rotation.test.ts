/** Tokens and the database's URL change in their files, under a load that sees no error. */
import { execFileSync } from 'node:child_process'
import { mkdir, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { assertHistory } from '../support/histories/history.ts'
import { startRivals } from '../support/histories/rivals.ts'
import { createDatabase, createRole, query } from '../support/postgres/database.ts'
import { failure, success } from '../support/responses.ts'
import { headers, type Service, startService, token } from '../support/service.ts'
import { is, until } from '../support/until.ts'

/** Creates that succeed before and after each change. */
const creates = 30
const created = success({ name: 'n' })
const linesOf = (service: Service, msg: string) => service.log().filter((line) => line.msg === msg)
const metric = (service: Service, name: string) => () =>
  service.metrics().then(({ value }) => value(`plant_store_${name}`))

t.jobs = 2

t.test('AUTH_TOKENS_FILE', async (t) => {
  const secretOf = (index: number) => `rotated-secret-${index}-0123456789`
  /** The load's token stays; of two others, one comes and one goes with each list. */
  const listOf = (index: number) =>
    [`tester:${token}`, `rotated:${secretOf(index)}`, `rotated:${secretOf(index + 1)}\n`].join('\n')
  // As in Kubernetes: tokens -> ..data/tokens, and ..data -> a directory.
  const directory = t.testdir({ '..0': { tokens: listOf(0) }, '..1': { tokens: listOf(1) } })
  const at = (name: string) => join(directory, name)
  const path = at('tokens')
  await symlink('..0', at('..data'))
  await symlink('..data/tokens', path)
  const service = await startService(t, { AUTH_TOKENS: '', AUTH_TOKENS_FILE: path })
  const load = startRivals({ urls: [service.url], token, clients: 4, pauseMs: 50 })
  t.teardown(() => load.stop())
  let lastId = 0
  const post = (index: number) => {
    const authorization = `Bearer ${secretOf(index)}`
    return service.post({ id: --lastId, name: 'n' }, { headers: { ...headers, authorization } })
  }

  /** Each makes the file the list with its index. */
  const changes: [title: string, change: () => Promise<void>][] = [
    [
      'a link in its path is swapped',
      () => symlink('..1', at('..new')).then(() => rename(at('..new'), at('..data')))
    ],
    [
      'it is renamed over',
      () => writeFile(at('new'), listOf(2)).then(() => rename(at('new'), path))
    ],
    ['it is written in place', () => writeFile(path, listOf(3))]
  ]
  for (const [index, [title, change]] of changes.entries()) {
    t.test(`${title}: the new token works, the old one is refused`, async (t) => {
      const [old, kept, fresh] = [index, index + 1, index + 2]
      t.strictSame([await post(old), await post(kept)], [created, created])
      t.strictSame(await post(fresh), failure('InvalidToken'))
      await change()
      await until('the new token works', async () => (await post(fresh)).status === 200)
      await until('the old one does not', async () => (await post(old)).status !== 200)
      t.strictSame([await post(kept), await post(old)], [created, failure('InvalidToken')])
    })
  }

  const badList = `tester:${token}\n!:${secretOf(9)}\n`
  const broken: [title: string, fault: RegExp, damage: () => Promise<void>][] = [
    ['an entry is bad', /^entry 2 has a bad name/, () => writeFile(path, badList)],
    ['it is empty', /^must hold at least one token/, () => writeFile(path, '')],
    [
      'it is a pipe without a writer',
      /^must name a regular file/,
      async () => {
        execFileSync('mkfifo', [at('pipe')])
        await rename(at('pipe'), path)
      }
    ],
    ['it is gone', /cannot be read \(ENOENT\)/, () => rm(path)],
    ['it is a directory', /^must name a regular file/, () => mkdir(path)],
    [
      'it is a link to a device',
      /cannot be read \(ENOENT\)|^must name a regular file/,
      () => rmdir(path).then(() => symlink('/dev/zero', path))
    ]
  ]
  for (const [title, fault, damage] of broken) {
    t.test(`${title}: the tokens from before stay, and the log and a metric tell it`, async (t) => {
      await damage()
      const told = () =>
        linesOf(service, 'AUTH_TOKENS_FILE is broken; keeping the earlier text').at(-1)
      const line = await until('it is logged', told, (last) => fault.test(String(last?.faults)))
      t.equal(line.level, 50)
      t.equal(await metric(service, 'tokens_file_error')(), 1)
      t.strictSame([await post(3), await post(4)], [created, created])
      t.strictSame(await post(9), failure('InvalidToken'))
    })
  }

  t.test('a good file is read again, and SIGHUP ends nothing', async (t) => {
    const reads = () => linesOf(service, 'AUTH_TOKENS_FILE was read').length
    const before = reads()
    await writeFile(at('new'), listOf(3))
    await rename(at('new'), path)
    await until('it is read', reads, is(before + 1))
    t.equal(await metric(service, 'tokens_file_error')(), 0)
    service.kill('SIGHUP')
    t.strictSame(await post(3), created)
  })

  t.test('it is written in pieces: only the whole is read', async (t) => {
    const told = () => service.log().filter(({ msg }) => msg.startsWith('AUTH_TOKENS_FILE ')).length
    let index = 3
    // A piece that stays, as this process stood still, is a text of its own: then it is written again.
    for (let longestMs = Number.POSITIVE_INFINITY; longestMs > 400; ) {
      const before = told()
      const whole = listOf(++index)
      longestMs = 0
      let lastMs = performance.now()
      for (let length = whole.length - 70; length <= whole.length; length++) {
        await writeFile(path, whole.slice(0, length))
        const nowMs = performance.now()
        longestMs = Math.max(longestMs, nowMs - lastMs)
        lastMs = nowMs
        await sleep(25)
      }
      await until('the new token works', async () => (await post(index + 1)).status === 200)
      // The line of a later request comes behind all of them.
      const last = { 'x-request-id': `whole-${index}` }
      await service.post({ id: --lastId, name: 'n' }, { headers: { ...headers, ...last } })
      await until('its line is there', () =>
        service.log().some(({ requestId }) => requestId === last['x-request-id'])
      )
      if (longestMs <= 400) t.equal(told(), before + 1)
    }
  })

  t.test('no create of the load has failed, and the log has no secret', async (t) => {
    await load.succeed(creates)
    await assertHistory(t, service.databaseUrl, await load.stop())
    t.notMatch(service.text(), /secret-/)
  })
})

t.test('DATABASE_URL_FILE', async (t) => {
  const databaseUrl = await createDatabase(t)
  const role = await createRole(t, databaseUrl, 'thyme-1')
  const other = await createRole(t, databaseUrl, 'thyme-4')
  const path = join(t.testdir({}), 'database-url')
  const write = (username: string, password: string) =>
    writeFile(path, `${Object.assign(new URL(databaseUrl), { username, password })}\n`)
  await write(role.name, 'thyme-1')
  const service = await startService(t, { DATABASE_URL: '', DATABASE_URL_FILE: path })
  const load = startRivals({ urls: [service.url], token, clients: 4, pauseMs: 50 })
  t.teardown(() => load.stop())
  await load.succeed(creates)
  const sessions = async (what: string) => {
    const ours = `application_name = 'plant-store' and datname = current_database()`
    const rows = await query(
      databaseUrl,
      `select ${what} as found from pg_stat_activity where ${ours}`
    )
    return rows.map(({ found }) => found)
  }
  const tries = () => linesOf(service, 'DATABASE_URL_FILE has a URL that does not work yet')
  const hasTried = (reason: string) => tries().some(({ missing }) => missing === reason)
  const error = metric(service, 'database_url_file_error')
  const replacedBy = 'DATABASE_URL_FILE was read'
  const replacements = () => linesOf(service, replacedBy).length
  let times = 0
  /** Returns when the service has gone over to the file's URL. */
  async function isReplaced() {
    await until('the connections are replaced', replacements, is(++times))
    await until('the metric tells it', error, is(0))
    await load.succeed(creates)
  }

  t.test('a password that changes in the file first is used once PostgreSQL has it', async (t) => {
    const before = await sessions('pid')
    await write(role.name, 'thyme-2')
    const reason = `the database cannot be reached: password authentication failed for user "${role.name}"`
    await until('the file is tried', () => hasTried(reason))
    t.equal(await error(), 1)
    await load.succeed(creates)
    await role.setPassword('thyme-2')
    await isReplaced()
    const areGone = (pids: number[]) => pids.every((pid) => !before.includes(pid))
    t.ok(await until('the sessions from before are gone', () => sessions('pid'), areGone))
  })

  t.test('a password that changes in PostgreSQL first is waited for', async (t) => {
    await role.setPassword('thyme-3')
    await load.succeed(creates) // in the open sessions
    t.equal(await error(), 0)
    const failures = async () =>
      (await service.metrics()).values('plant_store_database_errors_total')['28P01']
    const before = await failures()
    await sessions('pg_terminate_backend(pid)')
    await until('a new session is refused', failures, (now) => now !== before)
    await write(role.name, 'thyme-3')
    await isReplaced()
  })

  t.test('after a change of the user, no session of the former one is left', async (t) => {
    t.strictSame(new Set(await sessions('usename')), new Set([role.name]))
    await write(other.name, 'thyme-4')
    await isReplaced()
    const isOther = (users: string[]) =>
      users.length > 0 && users.every((user) => user === other.name)
    t.ok(await until('one user is left', () => sessions('usename'), isOther))
  })

  t.test('a broken file changes nothing, and the next good one is used', async (t) => {
    await writeFile(path, 'mysql://gardener:thyme-5@127.0.0.1/plants')
    const told = () => linesOf(service, 'DATABASE_URL_FILE is broken; keeping the earlier text')
    const [line] = await until('it is logged', told, ({ length }) => length > 0)
    const fault = 'must be a URL such as postgres://user:password@host:5432/database'
    t.strictSame([line?.level, line?.faults], [50, [fault]])
    t.equal(await error(), 1)
    await load.succeed(creates)
    await write(role.name, 'thyme-3')
    await isReplaced()
  })

  t.test('a database that fails a check is not used before it passes', async (t) => {
    const next = await createDatabase(t)
    const commit = `alter database ${new URL(next).pathname.slice(1)} set synchronous_commit`
    await query(next, `alter table plants rename to later; ${commit} = off`)
    await writeFile(path, next)
    const atStart = 'synchronous_commit must be remote_write, on or remote_apply; it is off'
    await until('what ends a start is told', () => hasTried(atStart))
    await query(next, `${commit} = on`)
    const reason = 'the database is not migrated: run the migrations first'
    await until('it is tried again', () => hasTried(reason))
    await load.succeed(creates)
    await assertHistory(t, databaseUrl, await load.stop())
    t.strictSame(await query(next, 'select from later'), [])
    await query(next, 'alter table later rename to plants')
    await until('the connections are replaced', replacements, is(times + 1))
    t.strictSame(await service.post({ id: -1, name: 'n' }), created)
    t.strictSame(await query(next, 'select id from plants'), [{ id: '-1' }])
    t.notMatch(service.text(), /thyme/, 'the log has no password')
  })
})
