/** The image: what is in it, and how it runs with everything taken from it that a container can lose. */
import { randomBytes, randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildImage, docker, inspect, root, sourceDateEpoch, statusOf } from '../../support/docker.ts'
import { startDatabase } from '../../support/docker-database.ts'
import { assertRows } from '../../support/histories/assert-rows.ts'
import { selectRows } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { token } from '../../support/service.ts'
import { is, until } from '../../support/until.ts'

const tag = `plant-store-test-${randomBytes(4).toString('hex')}`
t.teardown(() => docker(['image', 'rm', '--force', tag]))
const labels = ['VERSION=1.2.3', 'REVISION=abc', 'SOURCE=https://example.org/plants']
await buildImage(
  tag,
  [`SOURCE_DATE_EPOCH=${sourceDateEpoch}`, ...labels].map((each) => `--build-arg=${each}`)
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

t.test('it holds the production packages of the lockfile, and nothing that no process needs', async (t) => {
  const list = 'find / -xdev -type f -printf "%m %p\\n"'
  const files = (await run('--user=0', tag, '-c', list)).split('\n').map((line) => {
    const [mode = '', ...path] = line.split(' ')
    return { mode: Number.parseInt(mode, 8), path: path.join(' ') }
  })
  const paths = files.map(({ path }) => path)
  const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const expected = Object.entries<{ dev?: boolean; os?: string[] }>(lockfile.packages)
    .filter(([path, { dev, os }]) => path !== '' && !dev && (os === undefined || os.includes('linux')))
    .map(([path]) => path)
  const found = paths
    .filter((path) => path.startsWith('/app/node_modules/') && path.endsWith('/package.json'))
    .map((path) => path.slice('/app/'.length, -'/package.json'.length))
    .filter((path) => /^(?:@[^/]+\/)?[^/]+$/.test(path.split('node_modules/').at(-1) as string))
  t.strictSame(found.sort(), expected.sort())
  t.ok(paths.includes('/app/dist/server.js'))
  const unwanted = {
    'a package manager': /\/(npm|npx|corepack|yarn|yarnpkg|pnpm)$|node_modules\/(npm|corepack|yarn)\//,
    'TypeScript or a map': /\.([mc]?ts|map|tsbuildinfo)$/,
    'a compiler': /^\/usr\/(local\/)?bin\/(gcc|cc|g\+\+|make|python3?|tsc)$/,
    'a file of this checkout that no process reads':
      /^\/app\/(?!node_modules\/|dist\/|migrations\/|public\/|package\.json$)/
  }
  const own = paths.filter((path) => path.startsWith('/app/') || path.startsWith('/usr/'))
  for (const [what, pattern] of Object.entries(unwanted)) {
    t.strictSame(
      own.filter((path) => pattern.test(path)),
      [],
      what
    )
  }
  t.strictSame(
    files.filter(({ mode }) => (mode & 0o6000) !== 0),
    [],
    'no file is setuid or setgid'
  )
  const excluded = ['/tmp', '/var/tmp', '/run/lock', '/proc*', '/dev*'].map((path) => `! -path '${path}'`)
  const writable = `find / -xdev ! -type l -writable ${excluded.join(' ')} 2>/dev/null || true`
  t.equal(await run(tag, '-c', writable), '', 'its user can write to no file of it')
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
