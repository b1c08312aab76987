/** What the profile backup promises: a lost disk costs seconds, each night proves the backup, and another stack takes it. */
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
const stack = await startStack(t, { BACKUP_DIRECTORY: disk, COMPOSE_PROFILES: 'backup' })
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
/** The base backups of the last stream, with their paths. */
async function bases(): Promise<string[]> {
  const paths = await asRoot('find', directory, '-mindepth', '3', '-maxdepth', '3', '-path', '*/base/*')
  return paths
    .split('\n')
    .filter((path) => /-(full|incremental)$/.test(path))
    .sort()
}
const untilBase = () => until('there is a base backup', bases, ({ length }) => length > 0)
/** What a night writes to standard error: nothing, if all is well. */
const night = () =>
  stack.operate('nightly-backup').then(
    () => '',
    ({ stderr }) => stderr as string
  )

t.test('a night under load is proved; one with a damaged backup, or without a receiver, fails', async (t) => {
  const load = await stack.startClients(t)
  await untilBase()
  t.equal(await night(), '')
  t.match(await bases(), [/-full$/, /-incremental$/])
  await stack.compose('stop', 'backup')
  t.match(await night(), /backup: \d+ of \d+ plants were restored/)
  await stack.compose('start', 'backup')
  // A file that the backup has, however early it began.
  const file = join((await bases())[0] as string, 'base/1/1259')
  await asRoot('cp', file, `${file}.whole`)
  await asRoot('sh', '-c', `printf '%4096s' '' | dd conv=notrunc bs=4096 of=${file}`)
  t.match(await night(), /checksum/)
  await asRoot('mv', `${file}.whole`, file)
  await load.assertServed()
})

t.test('the disk of the database is lost under load: what was acknowledged is restored', async (t) => {
  const load = await stack.startClients(t)
  const [db] = await stack.running('db')
  await load.succeed(1_500)
  await docker(['kill', db as string])
  const killed = performance.now()
  await stack.compose('rm', '--force', 'db')
  await docker(['volume', 'rm', `${project}_data`])
  await asRoot('ops/restore', directory)
  await load.succeed(200)
  const { operations } = await load.stop()
  const stored = new Set((await stack.plants()).map(({ id }) => id))
  const acknowledged = operations.filter(({ response }) => response?.status === 200)
  const lost = acknowledged.filter(({ id }) => !stored.has(id))
  const lostMs = Math.max(0, ...lost.map(({ ended = 0 }) => killed - ended))
  t.comment(`lost: ${lost.length} of ${acknowledged.length}, the last ${Math.round(lostMs)} ms`)
  t.ok(lostMs < 10_000, 'seconds at most')
  t.strictSame(
    lost.filter(({ ended = Infinity }) => ended > killed),
    []
  )
})

t.test('another stack is restored at a time, with the tokens; it is not done twice', async (t) => {
  await untilBase()
  const token = await stack.token()
  const plants = await stack.plants()
  const time = new Date()
  await stack.query('select pg_sleep(1)')
  const create = (url: string) => createPlant(url, token, { id: -1, name: 'Fern' })
  t.equal(await create(await stack.url()), '200 {"name":"Fern"}')
  const cwd = await copyCheckout(t)
  const env = {
    ...stack.env,
    COMPOSE_PROJECT_NAME: `${project}-other`,
    COMPOSE_PROFILES: '',
    COMPOSE_PROGRESS: 'quiet'
  }
  const other = openProject(cwd, { ...env, PLANT_STORE_IMAGE: stack.image })
  t.teardown(() => other.compose('--profile=*', 'down', '--volumes', '--timeout=5'))
  const variables = Object.entries({ ...env, PLANT_STORE_IMAGE: stack.image }).map((entry) => entry.join('='))
  const restore = (when: Date) =>
    asRoot(
      'sh',
      '-c',
      `cd ${cwd} && env ${variables.join(' ')} ops/restore ${directory} ${when.toISOString()} 2>&1`
    )
  await t.rejects(restore(new Date(0)), /there is no base backup from before 1970/)
  await restore(time)
  t.strictSame(await other.psql('db', 'plants', 'select count(*) from plants'), [`${plants.length}`])
  t.equal(await create(await other.url('balancer', 3000)), '200 {"name":"Fern"}')
  await t.rejects(restore(time), /has a database/)
})
