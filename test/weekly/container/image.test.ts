/** The image is small, not root, and runs with everything taken from it that a container can lose. */
import { randomBytes, randomInt } from 'node:crypto'
import t, { type Test } from 'tap'
import { buildImage, docker, inspect } from '../../support/docker.ts'
import { startDatabase } from '../../support/docker-database.ts'
import { createPlant } from '../../support/post.ts'
import { token } from '../../support/service.ts'
import { is, until } from '../../support/until.ts'

const tag = `plant-store-test-${randomBytes(4).toString('hex')}`
t.teardown(() => docker(['image', 'rm', '--force', tag]))
const labels = ['VERSION=1.2.3', 'REVISION=abc', 'SOURCE=https://example.org/plants']
await buildImage(
  tag,
  labels.map((each) => `--build-arg=${each}`)
)

const run = (...args: string[]) => docker(['run', '--rm', '--entrypoint=sh', ...args])

/** Runs the image as a stranger to it, without what a container can do without; returns the container's name. */
async function runHardened(t: Test, flags: string[], command: string[] = []) {
  const name = `${tag}-${randomBytes(4).toString('hex')}`
  const uid = randomInt(100_000, 60_000_000)
  const hardened = [
    '--read-only',
    '--cap-drop=ALL',
    '--security-opt=no-new-privileges',
    `--user=${uid}:${uid}`
  ]
  t.teardown(() => docker(['rm', '--force', name]))
  await docker(['run', '--detach', '--name', name, ...hardened, ...flags, tag, ...command])
  return name
}

const health = async (name: string) => (await inspect(name))[0].State.Health.Status

t.test('it is small: no package manager, no package of development, no types', async (t) => {
  const unwanted = String.raw`/(npm|npx|corepack|yarn|pnpm)$|node_modules/(npm|corepack|typescript|tap)/|^/app/.*\.([mc]?ts|map)$|^/app/(src|test|dev)/`
  const find = `find /app /usr/local /opt | grep -E '${unwanted}' || true`
  t.equal(await run('--user=0', tag, '-c', find), '')
})

t.test('its user can write to no file of it', async (t) => {
  const excluded = ['/tmp', '/var/tmp', '/run/lock', '/proc*', '/dev*'].map((path) => `! -path '${path}'`)
  const writable = `find / -xdev ! -type l -writable ${excluded.join(' ')} 2>/dev/null || true`
  t.equal(await run(tag, '-c', writable), '')
})

t.test('it says what it is', async (t) => {
  const [{ Config: config }] = await inspect(tag)
  t.match(config, {
    User: /^[1-9]\d*:[1-9]\d*$/,
    Healthcheck: { Test: ['CMD', 'node', 'dist/commands/healthcheck.js'] },
    Labels: {
      'org.opencontainers.image.title': 'Plant Store',
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': '1.2.3',
      'org.opencontainers.image.revision': 'abc',
      'org.opencontainers.image.source': 'https://example.org/plants'
    }
  })
})

t.test('with nothing writable it migrates, serves, and ends at SIGTERM', async (t) => {
  const database = await startDatabase()
  t.teardown(() => database.remove())
  const settings = ['--network', database.network, '--env', `DATABASE_URL=${database.url}`]
  const migration = await runHardened(t, settings, ['node', 'dist/commands/migrate.js'])
  t.equal(await docker(['wait', migration]), '0')
  const flags = [`--env=AUTH_TOKENS=tester:${token}`, '--publish=127.0.0.1::3000', '--health-interval=2s']
  const name = await runHardened(t, [...settings, ...flags])
  await until('it is healthy', () => health(name), is('healthy'))
  const url = `http://${await docker(['port', name, '3000/tcp'])}`
  t.equal(await createPlant(url, token, { id: 1, name: 'Fern' }), '200 {"name":"Fern"}')
  t.strictSame(await database.sql('select id, name from plants'), ['1|Fern'])
  await docker(['stop', '--time=60', name])
  t.equal((await inspect(name))[0].State.ExitCode, 0)
})
