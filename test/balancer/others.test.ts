/** Behind Caddy, Apache and Varnish as docs/balancers.md sets them: a rolling restart loses nothing, the service judges. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { assertHistory } from '../../harness/histories/assert-rows.ts'
import { startRivals } from '../../harness/histories/rivals.ts'
import { exchange, parseResponses } from '../../harness/http/raw.ts'
import { freePort } from '../../harness/postgres/embedded-postgres.ts'
import { token } from '../../harness/service/service.ts'
import { scaled } from '../../harness/time/slowness.ts'
import { until } from '../../harness/time/until.ts'
import { ask, startInstances } from './instances.ts'

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
const manual = readFileSync(join(import.meta.dirname, '../../docs/balancers.md'), 'utf8')
const [, section = ''] = manual.split('\n## Others\n')

interface Balancer {
  command: string
  /** The arguments for a configuration in this file, to listen on a port. */
  args(file: string, port: number): string[]
  /** What the manual's lines need around them to run here. */
  complete(lines: string, port: number, directory: string): string
}

const modules = [
  ...['mpm_event', 'authz_core', 'slotmem_shm'],
  ...['proxy', 'proxy_http', 'proxy_balancer', 'lbmethod_byrequests', 'proxy_hcheck']
]

const balancers: Record<string, Balancer> = {
  Caddy: {
    command: 'caddy',
    args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    complete: (lines, port) =>
      `{\n  admin off\n  auto_https off\n  default_bind 127.0.0.1\n}\n${lines.replace(':3000', `:${port}`)}`
  },
  Apache: {
    command: 'apache2',
    args: (file) => ['-D', 'FOREGROUND', '-f', file],
    complete: (lines, port, directory) =>
      [
        ...modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`),
        `ServerRoot ${directory}\nDefaultRuntimeDir ${directory}\nPidFile ${directory}/pid\nErrorLog ${directory}/log`,
        `Listen 127.0.0.1:${port}\nServerName plants.test\nUser www-data\nGroup www-data\n${lines}`
      ].join('\n')
  },
  Varnish: {
    command: 'varnishd',
    args: (file, port) => [
      ...['-F', '-j', 'none', '-n', join(file, '../work'), '-s', 'malloc,16m'],
      ...['-a', `127.0.0.1:${port}`, '-f', file]
    ],
    complete: (lines) => lines
  }
}

/** The lines that the manual has for a balancer. */
const linesOf = (name: string) =>
  (new RegExp(`\\*\\*${name}\\*\\*[^]*?\\n\\n((?: {4}.*\\n)+)`).exec(section)?.[1] ?? '').replaceAll(
    /^ {4}/gm,
    ''
  )

async function startBalancer(t: Test, name: string, [first, second]: number[]) {
  const { command, args, complete } = balancers[name] as Balancer
  const directory = await mkdtemp(join(tmpdir(), 'plant-store-balancer-'))
  const port = await freePort()
  const lines = linesOf(name).replaceAll('3001', String(first)).replaceAll('3002', String(second))
  const file = join(directory, 'config')
  await writeFile(file, complete(lines, port, directory))
  const child = spawn(command, args(file, port), {
    env: { ...env, HOME: directory },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaints += text))
  t.teardown(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(directory, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}`
  await until(`${name} has a replica`, async () => {
    if (child.exitCode !== null) throw new Error(complaints)
    return (await fetch(`${url}/livez`)).status === 200
  })
  return url
}

for (const [name, { command }] of Object.entries(balancers)) {
  const skip = spawnSync(command, ['-V'], { env }).error ? `${command} is not on the PATH` : false

  t.test(
    `${name}: a rolling restart without a failed create; what it passes on is unchanged`,
    { skip },
    async (t) => {
      const settings = { SHUTDOWN_DELAY_MS: String(scaled(7_000)) }
      const { databaseUrl, ports, start, end } = await startInstances(t, 2, settings)
      const url = await startBalancer(t, name, ports)
      const large = JSON.stringify({ id: 1, name: 'x'.repeat(2 ** 21) })
      const cases: [string, string, number][] = [
        ['a good request', ask('{"id":-1,"name":"n"}'), 0],
        ['a path with two slashes', ask('', {}, 'POST //plants HTTP/1.1'), 404],
        ['an escaped slash', ask('', {}, 'POST /plants%2f1 HTTP/1.1'), 404],
        ['no token', ask('{}', { authorization: undefined }), 401],
        ['another method', ask('', {}, 'GET /plants HTTP/1.1'), 405],
        ['2 MB', ask(large), 413]
      ]
      for (const [title, bytes, error] of cases) {
        const [response] = parseResponses(await exchange(url, [bytes]))
        t.equal(response?.status, error === 0 ? 200 : 400, title)
        t.equal(JSON.parse(response?.body ?? '').error ?? 0, error, title)
      }
      const load = startRivals({ urls: [url], token, clients: 16, pauseMs: 10 })
      t.teardown(() => load.stop())
      await load.succeed(200)
      for (const port of ports) {
        t.equal(await end(port, 'SIGTERM'), 0)
        await load.succeed(200)
        const next = await start(port)
        await next.output(/"msg":"created"/)
        await load.succeed(200)
      }
      await assertHistory(t, databaseUrl, await load.stop())
    }
  )
}
