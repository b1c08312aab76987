/** docs/compose.md as it stands there: each of its commands runs, twice, and no client sees what the page does not announce. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { docker, inspect } from '../../dev/docker.ts'
import { execute } from '../../dev/execute.ts'
import { until } from '../../dev/until.ts'
import { startStack } from './stack.ts'
import { readSteps } from './tour.ts'

const stack = await startStack(t, { WATCH_SECONDS: '3' })
const { COMPOSE_PROJECT_NAME: project = '', POSTGRES_IMAGE: postgres = 'postgres:18.6-trixie' } = {
  ...process.env,
  ...stack.env
}
const backups = join(stack.cwd, 'coverage')
await mkdir(backups)
const others = ['trial', 'plants-19']
t.teardown(async () => {
  for (const other of others)
    await stack.compose('-p', `${project}-${other}`, '--profile=*', 'down', '--volumes', '--timeout=5')
})

/** What stands for something that this machine may lack, or that another test may use. */
const replaced: [RegExp, string][] = [
  [/\/backups\//g, `${backups}/`],
  [/\b(trial|plants-19)\b/g, `${project}-$1`],
  [/\bPORT=3100\b/g, 'PORT=0'],
  [/\bpostgres:19\.1-trixie\b/g, postgres],
  [/--profile observability up --wait/g, '$& prometheus'] // without Grafana
]

/** Runs the commands of sections in one shell, as a person who pastes them. */
async function run(...headings: string[]) {
  const steps = headings.flatMap((heading) => readSteps('docs/compose.md', heading))
  t.ok(steps.length > 3)
  const lines = [
    'set -euo pipefail',
    'backup=/backups/$(date +%N)',
    ...steps.map(({ command }) => command)
  ].join('\n')
  const script = replaced.reduce((text, [from, to]) => text.replaceAll(from, to), lines)
  return execute('bash', ['-c', script], { cwd: stack.cwd, env: stack.env })
}

for (const time of ['first', 'second']) {
  t.test(`the commands of the stack and of the backup, for the ${time} time under load`, async (t) => {
    const load = await stack.startClients(t)
    const output = await run('## Docker Compose', '## Backup')
    t.match(output, /^\S{43}$/m, 'a token')
    t.match(output, /^ +\d+\n\(1 row\)$/m, 'plants in the second stack')
    t.equal((await stack.running('api')).length, 4)
    const wanted = ['--no-deps', '--entrypoint=cat', 'setup', '/pages/wanted.prom']
    t.equal(await stack.compose('run', '--rm', '-T', ...wanted), 'plant_store_replicas_wanted 4')
    await load.assertServed()
  })

  t.test(`a major upgrade of PostgreSQL and back, for the ${time} time`, async (t) => {
    const plants = await stack.query('select * from plants order by id')
    await run('## PostgreSQL')
    t.strictSame(await stack.query('select * from plants order by id'), plants)
    t.equal((await stack.running('api')).length, 4)
    const volumes = await docker(['volume', 'ls', '--quiet', `--filter=name=${project}-`])
    t.equal(volumes, '', 'nothing of other stacks is left')
  })
}

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
  t.match(await run('## The image'), /nothing to migrate\n.*^token {2}\S{43}$/ms)
  const health = async () => (await inspect(image))[0].State.Health.Status
  await until('it serves', health, (status) => status === 'healthy')
})
