/** docs/compose.md as it stands there: each of its commands runs, and no client sees what the page does not announce. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { docker, inspect } from '../../support/docker.ts'
import { execute, tryExecute } from '../../support/execute.ts'
import { is, until } from '../../support/until.ts'
import { copyCheckout, startStack } from './stack.ts'
import { readSteps, type Step } from './tour.ts'

const backups = join(await copyCheckout(t), 'coverage')
await mkdir(backups)
const stack = await startStack(t, {
  WATCH_SECONDS: '3',
  COMPOSE_PROFILES: 'backup',
  BACKUP_DIRECTORY: backups
})
const { COMPOSE_PROJECT_NAME: project = '', POSTGRES_IMAGE: postgres = 'postgres:18.6-trixie' } = {
  ...process.env,
  ...stack.env
}
const others = ['trial', 'plants-19']
const isRestic = (await tryExecute('restic', ['version'])) !== undefined
/** Runs restic on the copy that stands for the one elsewhere. */
const restic = (...args: string[]) =>
  asRoot('restic', ['--repo', join(backups, 'elsewhere'), '--password-command', 'echo thyme', ...args])
t.teardown(async () => {
  await stack.compose('--profile=*', 'stop')
  await asRoot('find', [backups, '-mindepth', '1', '-delete'])
  for (const other of others)
    await stack.compose('-p', `${project}-${other}`, '--profile=*', 'down', '--volumes', '--timeout=5')
})

/** What stands for something that this machine may lack, or that another test may use. */
const replaced: [RegExp, string][] = [
  [/\/var\/backups\/plant-store\b/g, `${backups}/${project}`],
  [/\/var\/backups\//g, `${backups}/`],
  [/\bplant-store_data\b/g, `${project}_data`],
  [/\b(trial|plants-19)\b/g, `${project}-$1`],
  [/sftp:\S+/g, join(backups, 'elsewhere')],
  [/--password-file \S+/g, '--password-command "echo thyme"'],
  [/'5 minutes ago'/g, "'1 second ago'"],
  [/\bPORT=3100\b/g, 'PORT=0'],
  [/\bpostgres:19\.1-trixie\b/g, postgres],
  [/--profile observability up --wait/g, '$& prometheus'] // without Grafana
]

/** Runs a command in the checkout as root, for whom the backups are. */
const asRoot = (command: string, args: string[]) =>
  process.getuid?.() === 0
    ? execute(command, args, stack)
    : execute('sudo', ['--preserve-env', command, ...args], stack)

if (isRestic) await restic('init')

/** Runs the commands of steps in one shell, as a person who pastes them. */
async function run(steps: Step[]) {
  t.ok(steps.length > 1)
  const commands = steps.map(({ command }) => command)
  const lines = commands.filter((command) =>
    command.startsWith('restic ') ? isRestic && !command.includes(' init') : true
  )
  const script = replaced.reduce((text, [from, to]) => text.replaceAll(from, to), lines.join('\n'))
  return asRoot('bash', ['-c', `set -euo pipefail\n${script}`])
}
const stepsOf = (heading: string) => readSteps('docs/compose.md', heading)
const backup = stepsOf('## Backup')
const loss = backup.findIndex(({ command }) => command.includes(' rm --stop '))

t.test('the commands of the stack and of the backup, under load', async (t) => {
  const load = await stack.startClients(t)
  const output = await run([...stepsOf('## Docker Compose'), ...backup.slice(0, loss)])
  t.match(output, /^\S{43}$/m, 'a token')
  t.equal((await stack.running('api')).length, 4)
  const wanted = ['--no-deps', '--entrypoint=cat', 'setup', '/pages/wanted.prom']
  t.match(await stack.compose('run', '--rm', '-T', ...wanted), /^plant_store_replicas_wanted 4$/m)
  await load.assertServed()
})

t.test('the database is lost and restored, under load', async (t) => {
  const load = await stack.startClients(t)
  const plants = await stack.plants()
  await run(backup.slice(loss))
  t.ok((await stack.plants()).length >= plants.length)
  await load.succeed(200)
  await load.stop()
})

t.test('a major upgrade of PostgreSQL and back', async (t) => {
  const plants = await stack.query('select * from plants order by id')
  await run(stepsOf('## PostgreSQL'))
  t.strictSame(await stack.query('select * from plants order by id'), plants)
  t.equal((await stack.running('api')).length, 4)
  const volumes = await docker(['volume', 'ls', '--quiet', `--filter=name=${project}-`])
  t.equal(volumes, '', 'nothing of other stacks is left')
})

t.test('the copy elsewhere is whole', { skip: !isRestic && 'restic is not on the PATH' }, async (t) => {
  await restic('check', '--read-data')
  t.match(await restic('ls', 'latest'), /\/base\/\S+-full\/backup_manifest$/m)
})

t.test('the commands of the image, beside the database of the stack', async (t) => {
  const [image, base] = [`${project}-image`, process.env.NODE_IMAGE]
  t.teardown(() => docker(['image', 'rm', '--force', image]))
  t.teardown(() => docker(['rm', '--force', image]))
  const urlOf = (service: string) =>
    stack.compose('run', '--rm', '-T', '--no-deps', '--entrypoint=cat', service, '/run/secrets/database-url')
  const [owner, service] = [await urlOf('migrate'), await urlOf('api')]
  replaced.push(
    [/docker build/g, base ? `$& --build-arg=NODE_IMAGE=${base}` : '$&'],
    [/(?<= )plant-store(?= )/g, image],
    [/MIGRATION_DATABASE_URL=\S+/g, `MIGRATION_DATABASE_URL=${owner} --network=${project}_back`],
    // It serves until it is stopped.
    [/-e DATABASE_URL=\S+/g, `--detach --name=${image} -e DATABASE_URL=${service} --network=${project}_back`],
    [/AUTH_TOKENS=…/g, `AUTH_TOKENS=tester:${'t'.repeat(43)}`],
    [/:3000:3000 \S+/g, `::3000 ${image}`]
  )
  t.match(await run(stepsOf('## The image')), /nothing to migrate\n.*^token {2}\S{43}$/ms)
  const health = async () => (await inspect(image))[0].State.Health.Status
  await until('it serves', health, is('healthy'))
})
