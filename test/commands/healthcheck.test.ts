/** The process that a container asks for its health. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { covered, run } from '../../harness/service/process.ts'
import { readProbeUrl } from '../../src/config/address.ts'

/** Starts a service that responds to each path with a status of its own. */
async function listen(t: Test, host: string, statuses: Record<string, number>) {
  const server = createServer(({ url = '' }, response) => {
    response.statusCode = statuses[url] ?? 500
    response.end('because')
  })
  t.teardown(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return String((server.address() as AddressInfo).port)
}

const probe = (t: Test, args: string[], env: Record<string, string>) =>
  run(t, ['src/commands/healthcheck.ts', ...args], { ...covered, ...env })

t.test('liveness is asked of the metrics, readiness of the port for clients', async (t) => {
  const METRICS_PORT = await listen(t, '127.0.0.1', { '/livez': 200 })
  const PORT = await listen(t, '127.0.0.1', { '/livez': 400, '/readyz': 400 })
  t.strictSame(await probe(t, [], { PORT, METRICS_PORT }), { code: 0, stdout: '', stderr: '' })
  const failed = (path: string) => ({ code: 1, stdout: '', stderr: `plant-store: ${path}: because\n` })
  t.strictSame(await probe(t, ['/readyz'], { PORT, METRICS_PORT }), failed('/readyz'))
  t.strictSame(await probe(t, ['/livez'], { PORT, METRICS_PORT: 'off' }), failed('/livez'))
})

t.test('it exits with 1 where nobody listens, and for a path that is not a probe', async (t) => {
  t.match(await probe(t, [], { METRICS_PORT: '1' }), { code: 1, stderr: /^plant-store: .*ECONNREFUSED/ })
  t.match(await probe(t, ['/plants'], {}), { code: 1, stderr: /^plant-store: usage: / })
})

const addresses: [path: string, env: Record<string, string>, url: string][] = [
  ['/readyz', {}, 'http://127.0.0.1:3000/readyz'],
  ['/readyz', { HOST: '::', PORT: '80', METRICS_PORT: '81' }, 'http://[::1]:80/readyz'],
  ['/readyz', { HOST: '10.1.2.3', PORT: '81' }, 'http://10.1.2.3:81/readyz'],
  ['/readyz', { HOST: 'fe00::1' }, 'http://[fe00::1]:3000/readyz'],
  ['/readyz', { HOST: '', PORT: '' }, 'http://127.0.0.1:3000/readyz'],
  ['/readyz', { METRICS_PORT: 'on' }, 'http://127.0.0.1:3000/readyz'],
  ['/livez', {}, 'http://127.0.0.1:9464/livez'],
  ['/livez', { METRICS_HOST: '', METRICS_PORT: '', PORT: '80' }, 'http://127.0.0.1:9464/livez'],
  ['/livez', { METRICS_HOST: '0.0.0.0', METRICS_PORT: '81' }, 'http://127.0.0.1:81/livez'],
  ['/livez', { METRICS_HOST: '::', HOST: '10.1.2.3' }, 'http://[::1]:9464/livez'],
  ['/livez', { METRICS_PORT: 'off', PORT: '80' }, 'http://127.0.0.1:80/livez'],
  ['/livez', { METRICS_PORT: '0', HOST: '::' }, 'http://[::1]:3000/livez']
]

t.test('its URL: METRICS_* or HOST and PORT, on the loopback for all addresses', async (t) => {
  for (const [path, env, url] of addresses)
    t.equal(readProbeUrl(path, env), url, `${path} ${JSON.stringify(env)}`)
})

t.test('an address or a port that is none: the same line as from the service', async (t) => {
  for (const [path, prefix] of [
    ['/readyz', ''],
    ['/livez', 'METRICS_']
  ] as const) {
    const message = `${prefix}PORT must be an integer from 0 to 65535`
    for (const port of ['x', '65536', '80/x'])
      t.throws(() => readProbeUrl(path, { [`${prefix}PORT`]: port }), { message })
    for (const host of ['localhost', 'fe80::1%eth0'])
      t.throws(() => readProbeUrl(path, { [`${prefix}HOST`]: host }), {
        message: new RegExp(`^${prefix}HOST must be an IP address such as `)
      })
  }
})
