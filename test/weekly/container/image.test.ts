/** The image: what is in it, and how it runs with everything taken from it that a container can lose. */
import { randomBytes, randomInt } from 'node:crypto'
import t, { type Test } from 'tap'
import { buildImage, docker, inspect, statusOf } from '../../support/docker.ts'
import { startDatabase } from '../../support/docker-database.ts'
import { assertRows, selectRows } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { token } from '../../support/service.ts'
import { is, until } from '../../support/until.ts'

const tag = `plant-store-test-${randomBytes(4).toString('hex')}`
t.teardown(() => docker(['image', 'rm', '--force', tag]))
await buildImage(tag)

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

t.test('it holds what runs and nothing else, and its user can change nothing of it', async (t) => {
  const list = (await run(tag, '-c', 'ls /app /app/node_modules; command -v npm npx yarn || true')).split(
    '\n'
  )
  for (const kept of ['dist', 'migrations', 'package.json', 'fastify', 'pg']) t.ok(list.includes(kept), kept)
  const unwanted = ['src', 'dev', 'tap', 'typescript', '.env', '/usr/local/bin/npm', '/usr/local/bin/npx']
  t.strictSame(
    unwanted.filter((each) => list.includes(each)),
    []
  )
  const writable = 'find /app -xdev ! -type l -writable 2>/dev/null || true'
  t.equal(await run(tag, '-c', writable), '')
  const [{ Config: config }] = await inspect(tag)
  t.match(config.User, /^[1-9]\d*:[1-9]\d*$/)
})

t.test('the token command runs in it', async (t) => {
  const name = await runHardened(t, ['--network=none'], ['node', 'dist/commands/create-token.js', 'me'])
  t.equal(await docker(['wait', name]), '0')
  t.match(await docker(['logs', name]), /^token {2}\S{43}\nentry {2}me:sha256:[0-9a-f]{64}$/)
})

t.test(
  'it migrates, is healthy also without its database, and loses nothing at SIGTERM under load',
  async (t) => {
    const database = await startDatabase()
    t.teardown(() => database.remove())
    const settings = ['--network', database.network, '--env', `DATABASE_URL=${database.url}`]
    const migration = await runHardened(t, settings, ['node', 'dist/commands/migrate.js'])
    t.equal(await docker(['wait', migration]), '0')
    const name = await runHardened(t, [
      ...settings,
      ...[`--env=AUTH_TOKENS=tester:${token}`, '--env=WRITE_DEADLINE_MS=60000', '--publish=127.0.0.1::3000'],
      ...['--health-interval=2s', '--health-timeout=30s', '--stop-timeout=120']
    ])
    const url = `http://${await docker(['port', name, '3000/tcp'])}`
    await until('it is healthy', () => health(name), is('healthy'))
    t.equal(await statusOf(`${url}/readyz`), 200)

    await docker(['stop', database.container])
    const probed = async () => (await inspect(name))[0].State.Health.Log.at(-1).Start
    const before = await probed()
    await until('it is probed', probed, (now) => now > before)
    t.equal(await health(name), 'healthy')
    await docker(['start', database.container])

    const load = startRivals({ urls: [url], token, clients: 16 })
    await load.succeed(500)
    await docker(['stop', '--time=120', name])
    t.equal((await inspect(name))[0].State.ExitCode, 0)
    const history = await load.stop()
    assertRows(
      t,
      (await database.sql(selectRows())).map((line) => JSON.parse(line)),
      history
    )
    const refused = history.failed.filter(({ response }) => response)
    t.strictSame(refused, [], 'the only failures are connections to a port that was closed')
  }
)
