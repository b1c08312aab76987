/** The image: what is in it, and how it runs, with everything taken from it that a container can lose. */
import { randomBytes, randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { buildImage, docker, inspect, root, sourceDateEpoch, statusOf } from '../../support/docker.ts'
import { startDatabase } from '../../support/docker-database.ts'
import { assertRows } from '../../support/histories/assert-rows.ts'
import { selectRows } from '../../support/histories/history.ts'
import { startRivals } from '../../support/histories/rivals.ts'
import { createPlant } from '../../support/post.ts'
import { exchange, parseResponses, request } from '../../support/sockets.ts'
import { token } from '../../support/service.ts'
import { is, until } from '../../support/until.ts'
import { copyCheckout } from './stack.ts'

const tag = `plant-store-test-${randomBytes(4).toString('hex')}`
const again = `${tag}-again`
const flags = [`--build-arg=SOURCE_DATE_EPOCH=${sourceDateEpoch}`, '--build-arg=VERSION=1.2.3']
const packageName = /^(?:@[^/]+\/)?[^/]+$/

t.teardown(() => docker(['image', 'rm', '--force', tag, again]))
const labels = ['--build-arg=REVISION=abc', '--build-arg=SOURCE=https://example.org/plants']
// BuildKit's cache then has the same files with other times.
await buildImage(again, [`--build-arg=SOURCE_DATE_EPOCH=${sourceDateEpoch + 1}`], await copyCheckout(t))
// The cache may have older packages of Debian. The second build, which this one is compared with, uses nothing of it.
await buildImage(tag, ['--no-cache-filter=runtime', ...flags, ...labels], await copyCheckout(t))
const files = (await runAsRoot('find / -xdev -type f -printf "%m %T@ %p\\n"')).split('\n').map((line) => {
  const [mode = '', time = '', ...path] = line.split(' ')
  return { mode: Number.parseInt(mode, 8), time: Number(time), path: path.join(' ') }
})

function runAsRoot(script: string) {
  return docker(['run', '--rm', '--user=0', '--entrypoint=sh', tag, '-c', script])
}

/** Runs the image as a stranger to it, with nothing that a container can do without; returns the container's name. */
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

t.test('it holds the production packages of the lockfile, and no others', async (t) => {
  const lockfile = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const expected = Object.entries<{ dev?: boolean; os?: string[] }>(lockfile.packages)
    .filter(([path, { dev, os }]) => path !== '' && !dev && (os === undefined || os.includes('linux')))
    .map(([path]) => path)
  const found = files
    .filter(({ path }) => path.startsWith('/app/node_modules/') && path.endsWith('/package.json'))
    .map(({ path }) => path.slice('/app/'.length, -'/package.json'.length))
    .filter((path) => packageName.test(path.split('node_modules/').at(-1) as string))
  t.strictSame(found.sort(), expected.sort())
})

t.test('it holds no package manager, no sources, no tests, and nothing that makes a user root', async (t) => {
  const paths = files.map(({ path }) => path)
  t.ok(paths.includes('/usr/local/bin/node'))
  t.ok(paths.includes('/app/dist/server.js'))
  const unwanted = {
    'a package manager': /\/(npm|npx|corepack|yarn|yarnpkg|pnpm)$|node_modules\/(npm|corepack|yarn)\//,
    'TypeScript or a map': /\.([mc]?ts|map|tsbuildinfo)$/,
    'a compiler': /^\/usr\/(local\/)?bin\/(gcc|cc|g\+\+|make|python3?|tsc)$/,
    'headers of Node': /^\/usr\/local\/include\//,
    'tests of a package': /\/node_modules\/(@[^/]+\/)?[^/@]+\/(tests?|benchmarks?|docs?|examples?)\//,
    'a file of this checkout that no process reads':
      /^\/app\/(?!node_modules\/|dist\/|migrations\/|public\/|package\.json$)/
  }
  for (const [what, pattern] of Object.entries(unwanted)) {
    t.strictSame(
      paths
        .filter((path) => path.startsWith('/app/') || path.startsWith('/usr/'))
        .filter((path) => pattern.test(path)),
      [],
      what
    )
  }
  const privileged = files.filter(({ mode }) => (mode & 0o6000) !== 0)
  t.strictSame(privileged, [], 'no file is setuid or setgid')
  const writable = 'find / -xdev ! -type l -writable ! -path /tmp ! -path /var/tmp ! -path /run/lock'
  t.equal(
    await docker([
      'run',
      '--rm',
      '--entrypoint=sh',
      tag,
      '-c',
      `${writable} ! -path '/proc*' ! -path '/dev*' 2>/dev/null || true`
    ]),
    '',
    'its user can write to no file of it'
  )
})

t.test('it says what it is', async (t) => {
  const [{ Config: config }] = await inspect(tag)
  t.match(config, {
    User: /^[1-9]\d*:[1-9]\d*$/,
    WorkingDir: '/app',
    Entrypoint: ['/usr/bin/tini', '--'],
    Cmd: ['node', '--max-semi-space-size=16', '--no-node-snapshot', '--disable-sigusr1', 'dist/server.js'],
    Healthcheck: { Test: ['CMD', 'node', 'dist/commands/healthcheck.js'] },
    Labels: {
      'org.opencontainers.image.title': 'Plant Store',
      'org.opencontainers.image.description': /./,
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': '1.2.3',
      'org.opencontainers.image.revision': 'abc',
      'org.opencontainers.image.source': 'https://example.org/plants'
    }
  })
})

t.test('the same sources give the same layers, no file younger than SOURCE_DATE_EPOCH', async (t) => {
  await buildImage(again, ['--no-cache', ...flags])
  const [first, second] = await inspect(tag, again)
  t.strictSame(second.RootFS.Layers, first.RootFS.Layers)
  const made = files.filter(({ path }) => !/^\/(\.dockerenv$|etc\/(hosts|hostname|resolv\.conf)$)/.test(path))
  const younger = made.filter(({ time }) => time > sourceDateEpoch)
  t.strictSame(younger, [])
})

t.test('the token command runs in it', async (t) => {
  const name = await runHardened(t, ['--network=none'], ['node', 'dist/commands/create-token.js', 'me'])
  t.equal(await docker(['wait', name]), '0')
  t.match(await docker(['logs', name]), /^token {2}\S{43}\nentry {2}me:sha256:[0-9a-f]{64}$/)
})

t.test('the service in it, from its start to its end', async (t) => {
  const database = await startDatabase()
  t.teardown(() => database.remove())
  const settings = ['--network', database.network, '--env', `DATABASE_URL=${database.url}`]
  const migration = await runHardened(t, settings, ['node', 'dist/commands/migrate.js'])
  t.equal(await docker(['wait', migration]), '0')
  t.match(await docker(['logs', migration]), /^migrated: /)
  const flags = [
    ...settings,
    ...[`--env=AUTH_TOKENS=tester:${token}`, '--publish=127.0.0.1::3000'],
    ...['--env=METRICS_HOST=0.0.0.0', '--publish=127.0.0.1::9464'],
    ...['--health-interval=2s', '--health-timeout=30s'],
    ...['--stop-timeout=120', '--env=SHUTDOWN_TIMEOUT_MS=100000'],
    ...['--env=OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1', '--env=OTEL_EXPORTER_OTLP_TIMEOUT=1000'],
    ...['--env=OTEL_BSP_SCHEDULE_DELAY=100', '--tmpfs=/log:size=4m,mode=1777']
  ]
  const name = await runHardened(t, flags, ['sh', '-c', 'exec node dist/server.js >/log/lines'])
  t.equal(await health(name), 'starting')
  const url = `http://${await docker(['port', name, '3000/tcp'])}`
  const sh = (script: string) => docker(['exec', name, 'sh', '-c', script])
  const create = (id: number) => createPlant(url, token, { id, name: 'Fern' })
  const log = async () => (await sh('cat /log/lines')).split('\n')

  await t.test('its health goes from starting to healthy', async (t) => {
    await until('it is healthy', async () => (await health(name)) === 'healthy')
    t.equal(await statusOf(`${url}/readyz`), 200)
    await t.rejects(
      docker(['exec', '--env=METRICS_PORT=1', name, 'node', 'dist/commands/healthcheck.js']),
      'nobody listens there'
    )
  })

  await t.test('it traces where it is told to', async (t) => {
    t.equal(await create(-1), '200 {"name":"Fern"}')
    await until('its spans are missed', async () =>
      (await log()).join().includes('"msg":"spans cannot be sent')
    )
  })

  await t.test('its log disk is full, then has room: the lines between are lost, and counted', async (t) => {
    const metrics = `http://${await docker(['port', name, '9464/tcp'])}/metrics`
    const lost = async () =>
      Number(/^plant_store_log_lines_lost_total (\d+)$/m.exec(await (await fetch(metrics)).text())?.[1])
    const ask = async (...ids: string[]) => {
      const requests = ids.map((id, index) => {
        const connection = index === ids.length - 1 ? 'close' : undefined
        const head = { 'x-request-id': id, 'x-forwarded-for': '::1,'.repeat(50), connection }
        // With a caller: others have few lines.
        return request('', head)
      })
      const responses = parseResponses(await exchange(url, [requests.join('')]))
      t.strictSame(new Set(responses.map(({ status }) => status)), new Set([400]))
      t.equal(responses.length, ids.length)
    }
    // More than fits into the service's memory.
    const ids = Array.from({ length: 4_000 }, (_, index) => `${index}-`.padEnd(128, 'x'))
    await sh('cat /dev/zero >/log/full || true')
    await ask(...ids)
    t.ok((await lost()) > 1_000)
    await sh('rm /log/full')
    const lines = await until('it logs again', async () => {
      const last = `after-${ids.length}`
      ids.push(last)
      await ask(last)
      const lines = await log()
      return lines.some((line) => line.includes(last)) ? lines : undefined
    })
    const found = lines.map((line) => JSON.parse(line).requestId).filter((id) => ids.includes(id))
    t.strictSame(
      found,
      ids.filter((id) => found.includes(id)),
      'in order'
    )
    const missing = ids.length - found.length
    const counted = await lost()
    t.ok(
      counted >= missing && counted < missing + 10,
      `${missing} are missing, ${counted} were lost, with others`
    )
  })

  await t.test('it stays healthy while its database is away, and serves when it is back', async (t) => {
    await docker(['stop', database.container])
    const probed = async () => (await inspect(name))[0].State.Health.Log.at(-1).Start
    const before = await probed()
    await until('it is probed', probed, (now) => now > before)
    t.equal(await health(name), 'healthy')
    t.equal(await statusOf(`${url}/readyz`), 200)
    await docker(['start', database.container])
    await until('it serves', () => create(-2), is('200 {"name":"Fern"}'))
  })

  await t.test('SIGTERM under load: what it acknowledged is stored, what it refused is not', async (t) => {
    const load = startRivals({ urls: [url], token, clients: 16 })
    await load.succeed(500)
    await docker(['stop', '--time=120', name])
    const [{ State: state }] = await inspect(name)
    const rows = (await database.sql(selectRows())).map((line) => JSON.parse(line))
    const history = await load.stop()
    assertRows(t, rows, history)
    const got = (name: string) =>
      history.operations.some((sent) => sent.name === name && sent.response?.status === 200)
    t.strictSame(
      [...history.failed.filter(({ response }) => response), ...rows.filter(({ name }) => !got(name))],
      [],
      'the only failures are connections to a port that was closed'
    )
    t.equal(state.ExitCode, 0)
  })
})

t.test('SIGTERM while it waits for its database ends it at once, and nothing stays a zombie', async (t) => {
  const name = await runHardened(t, [
    '--network=none',
    '--env=DATABASE_URL=postgres://u:p@127.0.0.1:1/d',
    `--env=AUTH_TOKENS=tester:${token}`,
    '--env=STARTUP_TIMEOUT_MS=600000'
  ])
  // The shell ends before its child, which process 1 inherits.
  await docker(['exec', name, 'sh', '-c', 'sleep 1 &'])
  const processes = () => docker(['exec', name, 'sh', '-c', 'cat /proc/[0-9]*/status 2>/dev/null || true'])
  await until(
    'the child has ended',
    async () => !/^Name:\tsleep\n(.*\n)?State:\t[^Z]/m.test(await processes())
  )
  await until('process 1 has reaped it', async () => !/^State:\tZ/m.test(await processes()))
  await docker(['stop', '--time=60', name])
  t.equal((await inspect(name))[0].State.ExitCode, 128 + 15)
})
