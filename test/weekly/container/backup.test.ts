/** What the profile backup promises: a lost disk costs seconds, a dead receiver fills none, and each night proves it. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { openProject } from '../../support/compose.ts'
import { docker } from '../../support/docker.ts'
import { execute } from '../../support/execute.ts'
import { createPlant } from '../../support/post.ts'
import { until } from '../../support/until.ts'
import { copyCheckout, startStack } from './stack.ts'

const disk = join(await copyCheckout(t), 'coverage')
await mkdir(disk)
const slotLimitMiB = 64
const stack = await startStack(t, {
  BACKUP_DIRECTORY: disk,
  COMPOSE_PROFILES: 'backup',
  MAX_SLOT_WAL_KEEP_SIZE: `${slotLimitMiB}MB`
})
const project = stack.env.COMPOSE_PROJECT_NAME as string
const directory = join(disk, project)
/** The directory is root's. */
const asRoot = (command: string, ...args: string[]) =>
  process.getuid?.() === 0
    ? execute(command, args, stack)
    : execute('sudo', ['--preserve-env', command, ...args], stack)
t.teardown(async () => {
  await stack.compose('stop', 'backup')
  await asRoot('rm', '-r', directory)
})
const restore = (...args: string[]) => asRoot('ops/restore', directory, ...args)
const streams = async () => (await asRoot('ls', directory)).split('\n').filter((name) => name.startsWith('2'))
/** The base backups of the last stream. */
async function bases(): Promise<string[]> {
  const [last] = (await streams()).slice(-1)
  return (await asRoot('ls', join(directory, last as string, 'base'))).split('\n').filter(Boolean)
}
const untilBase = () =>
  until('there is a base backup', bases, (names) => names.some((name) => name.endsWith('-full')))
const metric = () =>
  stack.compose('run', '--rm', '-T', '--no-deps', '--entrypoint=cat', 'setup', '/pages/backup.prom')
const night = () =>
  stack.operate('nightly-backup').then(
    () => '',
    ({ stderr }) => stderr as string
  )
const fern = { id: -1, name: 'Fern' }

t.test('nights under load: the second adds what has changed, and nothing of a trial is left', async (t) => {
  const load = await stack.startClients(t)
  await untilBase()
  const before = Math.floor(Date.now() / 1_000)
  t.equal(await night(), '')
  t.equal(await night(), '')
  t.match(await bases(), [/-full$/, /-incremental$/, /-incremental$/])
  const [, time] = (await metric()).split(' ')
  t.ok(Number(time) >= before)
  await load.assertServed()
  t.equal(await docker(['ps', '--all', '--quiet', `--filter=name=${project}-nightly`]), '')
})

t.test('the disk of the database is lost under load: what was acknowledged is restored', async (t) => {
  const load = await stack.startClients(t)
  const [db] = await stack.running('db')
  await load.succeed(1_500)
  await docker(['kill', db as string])
  const killed = performance.now()
  await stack.compose('rm', '--force', 'db')
  await docker(['volume', 'rm', `${project}_data`])
  // What somebody may try first makes an empty database, which must not take the place of the lost one.
  await stack.compose('up', '--detach', '--wait', 'db')
  const receiver = () => stack.compose('logs', 'backup')
  await until('it is refused', receiver, (log) => log.includes('has the backups of another database'))
  const refused = await restore().catch(({ stderr }) => stderr as string)
  const [remove = ''] =
    /docker compose --project-directory .* && docker volume rm \S+_data$/m.exec(refused ?? '') ?? []
  await execute('sh', ['-c', remove], { cwd: '/' })
  await restore()
  const restored = performance.now()
  await load.succeed(200)
  const { operations } = await load.stop()
  const stored = new Set((await stack.plants()).map(({ id }) => id))
  const acknowledged = operations.filter(({ response }) => response?.status === 200)
  const before = acknowledged.filter(({ ended = Infinity }) => ended < killed)
  t.ok(before.length >= 1_500)
  const lost = acknowledged.filter(({ id }) => !stored.has(id))
  const lostMs = Math.max(0, ...lost.map(({ ended = 0 }) => killed - ended))
  t.comment(
    `lost: ${lost.length} of ${before.length}, the last ${Math.round(lostMs)} ms; restored in ${Math.round(restored - killed)} ms`
  )
  t.ok(lostMs < 10_000, 'seconds at most')
  const lostLater = lost.filter(({ ended = Infinity }) => ended > killed)
  t.strictSame(lostLater, [])
})

t.test('a night fails while the receiver is away, and with a damaged backup', async (t) => {
  await untilBase()
  const reported = await metric()
  const load = await stack.startClients(t)
  await stack.compose('stop', 'backup')
  t.match(await night(), /backup: \d+ of \d+ plants were restored/)
  await stack.compose('start', 'backup')
  const filenode = (await stack.query("select pg_relation_filepath('plants')"))[0] as string
  const [stream] = (await streams()).slice(-1)
  const file = join(directory, stream as string, 'base', (await bases())[0] as string, filenode)
  await asRoot('cp', file, `${file}.whole`)
  await asRoot('sh', '-c', `printf '%4096s' '' | dd conv=notrunc bs=4096 of=${file}`)
  t.match(await night(), /invalid page|checksum/)
  await asRoot('mv', `${file}.whole`, file)
  t.equal(await metric(), reported)
  await load.assertServed()
})

t.test('at a time, in another stack: each token comes back, with the line that revokes it', async (t) => {
  const [token] = [await stack.token('alice'), await stack.token()]
  const plants = await stack.plants()
  const time = new Date()
  await stack.query('select pg_sleep(1)')
  t.equal(await createPlant(await stack.url(), await stack.token(), fern), '200 {"name":"Fern"}')
  const cwd = await copyCheckout(t)
  const env = {
    ...stack.env,
    COMPOSE_PROJECT_NAME: `${project}-other`,
    COMPOSE_PROFILES: '',
    PLANT_STORE_IMAGE: stack.image
  }
  const other = openProject(cwd, env)
  t.teardown(() => other.compose('--profile=*', 'down', '--volumes', '--timeout=5'))
  const restoreOther = async (when: Date) => {
    const variables = Object.entries(env).map((entry) => entry.join('='))
    return asRoot(
      'sh',
      '-c',
      `cd ${cwd} && env ${variables.join(' ')} COMPOSE_PROGRESS=quiet ops/restore ${directory} ${when.toISOString()} 2>&1`
    )
  }
  await t.rejects(restoreOther(new Date(0)), /there is no base backup from before 1970/)
  await t.rejects(
    restoreOther(new Date(Date.now() + 3_600_000)),
    /before configured recovery target was reached/
  )
  const said = await restoreOther(time)
  const rows = await other.psql('db', 'plants', 'select count(*) from plants')
  t.strictSame(rows, [`${plants.length}`])
  const url = await other.url('balancer', 3000)
  t.equal(await createPlant(url, token, fern), '200 {"name":"Fern"}')
  const [revoke = ''] = /docker compose .* setup --revoke alice$/m.exec(said) ?? []
  await execute('sh', ['-c', revoke], { cwd: '/', env })
  await until(
    'it is revoked',
    () => createPlant(url, token, fern),
    (text) => text.includes('401')
  )
  await t.rejects(restoreOther(time), /has a database/)
})

t.test('a receiver that dies fills no disk, and its successor begins anew by itself', async (t) => {
  const began = await streams()
  const load = await stack.startClients(t)
  await stack.compose('kill', 'backup')
  const sizeMiB = async () => Number(await stack.query('select sum(size) / 1048576 from pg_ls_waldir()'))
  const status = "select wal_status from pg_replication_slots where slot_name = 'backup'"
  let most = 0
  for (let written = 0; written < 10 * slotLimitMiB; written += 32) {
    await stack.query(
      "select count(pg_logical_emit_message(false, '', repeat('x', 1048576))) from generate_series(1, 32)"
    )
    await stack.query('checkpoint')
    most = Math.max(most, await sizeMiB())
  }
  t.strictSame(await stack.query(status), ['lost'])
  t.comment(`${most} MiB of WAL at most`)
  t.ok(most < 4 * slotLimitMiB)
  await stack.compose('up', '--detach', '--wait', 'backup')
  t.strictSame(await stack.query(status), ['reserved'])
  await untilBase()
  t.equal((await streams()).length, began.length + 1)
  t.equal(await night(), '')
  await load.assertServed()
})

t.test('after two weeks, backups and WAL that no restore needs are deleted', async (t) => {
  /** Renames a stream, or base backups, as if they were so many days old. */
  const age = async (name: string, days: number, from = '') => {
    const date = new Date(Date.now() - days * 86_400_000).toISOString().replace(/:|\.\d+/g, '')
    const aged = date + name.slice('2000-01-01T000000Z'.length)
    await asRoot('mv', join(directory, from, name), join(directory, from, aged))
    return aged
  }
  await stack.compose('stop', 'backup')
  for (const [index, stream] of (await streams()).entries()) await age(stream, 60 - index)
  const all = await streams()
  const last = all.at(-1) as string
  const [full, next] = (await bases()) as [string, string]
  const [agedFull, agedNext] = [await age(full, 30, `${last}/base`), await age(next, 29, `${last}/base`)]
  await stack.compose('up', '--detach', '--wait', 'backup')
  t.equal(await night(), '')
  t.strictSame(await streams(), [last])
  const [, , newer] = await bases()
  t.strictSame(await bases(), [agedFull, agedNext, newer])
  t.match(newer, /-full$/, 'the last one is older than a week')

  const wal = async () => (await asRoot('ls', join(directory, last, 'wal'))).match(/^[0-9A-F]{24}$/gm)
  const [oldest] = (await wal()) ?? []
  const aged = await age(newer as string, 15, `${last}/base`)
  t.equal(await night(), '')
  t.strictSame((await bases()).slice(0, -1), [aged])
  t.notOk((await wal())?.includes(oldest as string))
  t.equal(await night(), '', 'what is left suffices')
})
