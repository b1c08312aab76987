/** What the profile backup promises: a lost disk costs seconds, and a time in the past can be restored. */
import { join } from 'node:path'
import t from 'tap'
import { commandsOf } from '../../support/pages.ts'
import { createPlant } from '../../support/post.ts'
import { copyStack, docker, makeDirectory } from '../../support/stack.ts'
import { until } from '../../support/until.ts'

const disk = await makeDirectory(t)
// As docs/compose.md has it; the container's user owns the directory.
const image = process.env.POSTGRES_IMAGE || 'postgres:18'
const onDisk = (command: string) =>
  docker(['run', '--rm', '--volume', `${disk}:/disk`, '--entrypoint=sh', image, '-c', command])
await onDisk('install -d -o postgres -g postgres -m 700 /disk/backup')
const stack = await copyStack(t, {
  BACKUP_DIRECTORY: join(disk, 'backup'),
  COMPOSE_PROFILES: 'backup',
  POSTGRES_IMAGE: image
})
t.teardown(async () => {
  await stack.compose('--profile=*', 'stop')
  await onDisk('rm -rf /disk/*')
})
await stack.start('--wait')

/** Loses the database and restores it by the page's lines: all that was received, or as it was at this time. */
async function restore(time = '') {
  const [list = '', stop = '', empty = '', all = '', until = ''] = commandsOf(
    'compose.md',
    'Restore'
  ).map((line) => line.replace('/var/backups/plant-store', join(disk, 'backup')))
  await stack.play(list)
  await stack.play([stop, empty, time ? until.replace(/'[^']*'/, `'${time}'`) : all].join('\n'))
  await stack.compose('up', '--detach', '--wait', 'balancer')
}

/** Waits until the backup has received all that the database has written: a busy machine may need a while. */
const received = () =>
  until(
    'the backup has received it',
    () => stack.query('select flush_lsn >= pg_current_wal_flush_lsn() from pg_stat_replication'),
    (rows) => rows.includes('t')
  )

t.test(
  'a base backup is made under load, and the disk is lost: what was acknowledged is restored',
  async (t) => {
    const load = await stack.startClients(t)
    await stack.compose('run', '--rm', '-T', 'backup', 'base')
    await load.succeed(1_500)
    const [db] = await stack.running('db')
    await docker(['kill', db as string])
    const killed = performance.now()
    const history = await load.stop()
    await restore()
    const stored = new Set((await stack.plants()).map(({ id }) => id))
    const acknowledged = history.operations.filter(({ response }) => response?.status === 200)
    const lost = acknowledged.filter(({ id }) => !stored.has(id))
    const lostMs = Math.max(0, ...lost.map(({ ended = 0 }) => killed - ended))
    t.comment(`lost: ${lost.length} of ${acknowledged.length}, the last ${Math.round(lostMs)} ms`)
    t.ok(lostMs < 10_000, 'seconds at most')
  }
)

t.test('the stack begins a new backup, from which a time is restored', async (t) => {
  await stack.compose('stop', 'backup')
  await onDisk('rm -rf /disk/backup/*')
  await stack.compose('up', '--detach', '--wait', 'backup')
  await stack.compose('run', '--rm', '-T', 'backup', 'base')
  const token = await stack.token()
  const create = async (id: number) => createPlant(stack.url, token, { id, name: 'Fern' })
  t.equal(await create(-1), '200 {"name":"Fern"}')
  const [time] = await stack.query(
    `select to_char(now() at time zone 'UTC' + interval '2 s', 'YYYY-MM-DD HH24:MI:SSZ'), pg_sleep(4)`
  )
  t.equal(await create(-2), '200 {"name":"Fern"}')
  await received()
  await restore(time?.split('|')[0])
  t.strictSame(await stack.query('select id from plants where id < 0'), ['-1'])
})

t.test('a time after the last commit is all that was received', async (t) => {
  await stack.compose('up', '--detach', '--wait', 'balancer')
  await onDisk('rm -rf /disk/backup/*')
  await stack.compose('up', '--detach', '--wait', 'backup')
  await stack.compose('run', '--rm', '-T', 'backup', 'base')
  t.equal(
    await createPlant(stack.url, await stack.token(), { id: -5, name: 'Fern' }),
    '200 {"name":"Fern"}'
  )
  await received()
  await stack.compose('stop', 'backup')
  await restore(new Date(Date.now() + 60_000).toISOString())
  t.strictSame(await stack.query('select id from plants where id = -5'), ['-5'])
  await onDisk(
    'test -s /disk/backup/tokens && openssl pkey -in /disk/backup/certificate.pem -noout'
  )
})
